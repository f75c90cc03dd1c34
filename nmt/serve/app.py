"""The application: the routes of the API and of the page, and what is done around them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import UserError
from nmt.serve import pages
from nmt.serve.document_process import start_server
from nmt.serve.limits import BoundedBody
from nmt.serve.routes import Routes
from nmt.serve.service import Service

FILES = "/translate_file"  # the address that gets documents
CORS_SECONDS = 20 * 24 * 3600  # for which a browser remembers who may ask, as with LibreTranslate
# Of every answer.
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Guard:
    """Around the routes: bounds the body, counts the answers, and adds the security headers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.monotonic()
        limits = self.service.limits
        most_bytes = limits.document_bytes if scope["path"] == FILES else limits.text_bytes
        body = BoundedBody(receive, most_bytes, limits.seconds)
        scope["nmt.body"] = body

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = getattr(scope.get("route"), "path", "other")
                self.service.answers.labels(path, message["status"]).inc()
                self.service.seconds.labels(path).observe(time.monotonic() - start)
                message["headers"] += HEADERS
            await send(message)

        await self.app(scope, body, send_counted)


async def explain(request: Request, error: Exception) -> Response:
    """An answer {"error": …}."""
    if isinstance(error, HTTPException):
        if error.status_code == 405 and request.method == "OPTIONS":
            # with the methods that are allowed
            return Response(status_code=204, headers=error.headers)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, UserError):
        return JSONResponse({"error": str(error)}, 400)
    status = 499 if isinstance(error, ClientDisconnect) else 500  # for metrics; nobody reads it
    return JSONResponse({"error": "The request could not be answered"}, status)


def make_app(service: Service) -> ASGIApp:
    """The application; its models stop when it has answered what it took."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        start_server()
        yield
        for queues in service.queues:
            await run_in_threadpool(queues.close)

    handlers = {HTTPException: explain, UserError: explain, ClientDisconnect: explain, 500: explain}
    routes = [*Routes(service).all(), *pages.ROUTES]
    application = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    application.state.fit_for = service.fit_for()
    app: ASGIApp = application
    if service.origins:
        app = CORSMiddleware(
            app,
            allow_origins=service.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            max_age=CORS_SECONDS,
        )
    return Guard(app, service)
