"""The page of the service, for people."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from nmt.view.alignment_page import read_asset

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def page(request: Request) -> Response:
    text = resources.files("nmt.serve").joinpath("page.html").read_text(encoding="utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})


async def asset(request: Request) -> Response:
    web = resources.files("nmt.convert").joinpath("web")
    if request.path_params["name"] == "page.css":
        style = read_asset("page.css") + web.joinpath("translator.css").read_text("utf-8")
        return Response(style, media_type="text/css")
    shared = read_asset("page.js") + web.joinpath("translator_page.js").read_text("utf-8")
    own = resources.files("nmt.serve").joinpath("page.js").read_text(encoding="utf-8")
    return Response(shared + own, media_type="text/javascript")


ROUTES = [Route("/", page), Route("/assets/{name}", asset)]
