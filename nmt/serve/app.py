"""The application: the routes of the API and of the page, and what is done around them."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import UserError, printable
from nmt.serve import pages
from nmt.serve.document_process import start_server
from nmt.serve.limits import BoundedBody, Refusal, busy
from nmt.serve.models import Lease
from nmt.serve.routes import Routes
from nmt.serve.service import Service

FILES = "/translate_file"  # the address that gets documents
CORS_SECONDS = 20 * 24 * 3600  # for which a browser remembers who may ask, as with LibreTranslate
# Of every answer.
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)  # of another server, which is kept
SLASHES = re.compile("//+")
log = logging.getLogger("nmt")


class Guard:
    """Around the routes: bounds the body, counts and logs the answers, and adds headers.

    A request uses its models until its answer has been sent.
    """

    def __init__(
        self, app: ASGIApp, service: Service, root_path: str = "", logs_requests: bool = False
    ) -> None:
        self.app = app
        self.service = service
        self.root_path = root_path
        self.logs_requests = logs_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.monotonic()
        limits = self.service.limits
        root = self.root_path
        scope["root_path"] = root
        # a client whose address of the service ends with a slash puts another one after it
        path = SLASHES.sub("/", scope["path"])
        # The proxy before the service may leave the root in the path or not. /translate may be both
        # the root, whose page is read, and an address behind it, to which a text is sent
        is_address = path == root and scope["method"] not in ("GET", "HEAD")
        if not f"{path}/".startswith(f"{root}/") or (root and is_address):
            path = root + path
        scope["path"] = path
        path = path.removeprefix(root)
        most_bytes = limits.document_bytes if path == FILES else limits.text_bytes
        body = BoundedBody(receive, most_bytes, limits.seconds)
        lease = Lease(self.service.models)
        scope["nmt.body"] = body
        scope["nmt.lease"] = lease
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += [*HEADERS, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, body, send_counted)
        except asyncio.CancelledError:  # the service ends, and has waited long enough
            if not status:
                refusal = busy("The service ends", "stop")
                answer = await explain(Request(scope), refusal)
                await answer(scope, receive, send_counted)
        finally:
            lease.end()
            self.note(scope, request_id, status or 500, lease, time.monotonic() - start)

    def note(
        self, scope: Scope, request_id: str, status: int, lease: Lease, seconds: float
    ) -> None:
        """Count an answer, and log it."""
        path = getattr(scope.get("route"), "path", "other")
        key = scope.get("nmt.key", "")
        reason = scope.get("nmt.reason", "")
        pairs = lease.pairs
        pair = pairs[0].name if len(pairs) == 1 else "several" if pairs else ""
        self.service.answers.labels(path, status, pair, key).inc()
        self.service.seconds.labels(path, pair).observe(seconds)
        if reason:
            self.service.refusals.labels(path, reason, key).inc()
        if self.logs_requests:
            about = {
                "id": request_id,
                "client": scope["client"][0] if scope["client"] else "",
                "key": key,
                "method": scope["method"],
                "path": printable(scope["path"], 100),
                "status": status,
                "seconds": round(seconds, 4),
                "pair": pair,
                "version": "+".join(dict.fromkeys(each.version for each in pairs)),
                "reason": reason,
            }
            log.info({name: value for name, value in about.items() if value != ""})


async def explain(request: Request, error: Exception) -> Response:
    """An answer {"error": …}."""
    if isinstance(error, Refusal):
        request.scope["nmt.reason"] = error.reason
    if isinstance(error, HTTPException):
        if error.status_code == 405 and request.method == "OPTIONS":
            # with the methods that are allowed
            return Response(status_code=204, headers=error.headers)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, UserError):
        return JSONResponse({"error": str(error)}, 400)
    status = 499 if isinstance(error, ClientDisconnect) else 500  # for metrics; nobody reads it
    return JSONResponse({"error": "The request could not be answered"}, status)


def make_app(service: Service, root_path: str = "", logs_requests: bool = False) -> ASGIApp:
    """The application; its models stop when it has answered what it took.

    `root_path`: below which a proxy offers it, such as /translate.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        start_server()
        following = asyncio.create_task(service.follow())
        yield
        following.cancel()
        await service.models.close_all()
        if service.corrections is not None:
            service.corrections.close()

    handlers = {HTTPException: explain, UserError: explain, ClientDisconnect: explain, 500: explain}
    routes = [*Routes(service).all(), *pages.ROUTES]
    application = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    application.state.fit_for = service.fit_for
    app: ASGIApp = application
    if service.origins:
        app = CORSMiddleware(
            app,
            allow_origins=service.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            max_age=CORS_SECONDS,
        )
    return Guard(app, service, root_path, logs_requests)
