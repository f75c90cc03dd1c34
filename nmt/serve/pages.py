"""The page of the service, for people."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from nmt.convert.export import read_resource
from nmt.view.alignment_page import read_asset
from nmt.view.text import escape_html

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def page(request: Request) -> Response:
    text = read_own("page.html")
    fit_for = "".join(f"<p>{escape_html(each)}</p>\n" for each in request.app.state.fit_for())
    text = text.replace("</header>", f"{fit_for}</header>")
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})


async def style(request: Request) -> Response:
    return Response(
        read_asset("page.css") + read_resource("web/translator.css") + read_own("page.css"),
        media_type="text/css",
    )


async def script(request: Request) -> Response:
    return Response(
        read_asset("page.js") + read_resource("web/translator_page.js") + read_own("page.js"),
        media_type="text/javascript",
    )


def read_own(name: str) -> str:
    return resources.files("nmt.serve").joinpath(name).read_text(encoding="utf-8")


ROUTES = [Route("/", page), Route("/assets/page.css", style), Route("/assets/page.js", script)]
