"""The files of the page, served from the package with headers that let it load nothing from anywhere else."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.control.api.calls import error_response

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """The page at /ui/ and a way there from /. It needs no token itself: it holds nothing until it has one to ask with."""
    return [
        Route("/", _to_page, methods=["GET"]),
        Route("/ui", _to_page, methods=["GET"]),
        Route("/ui/", _file, methods=["GET"]),
        Route("/ui/{name}", _file, methods=["GET"]),
    ]


async def _to_page(request: Request) -> Response:
    return RedirectResponse("/ui/", status_code=307)


async def _file(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    known = page_files()
    if name not in known:
        return error_response(404, f"the page has no file '{name[:100]}'")
    content, tag, kind = known[name]
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    """Every file of the page: its content, its tag and its type."""
    found = {}
    for entry in files("holdfast.ui").joinpath("static").iterdir():
        suffix = f".{entry.name.rpartition('.')[2]}"
        if suffix in TYPES:
            content = entry.read_bytes()
            found[entry.name] = content, f'"{hashlib.sha256(content).hexdigest()[:20]}"', TYPES[suffix]
    return found
