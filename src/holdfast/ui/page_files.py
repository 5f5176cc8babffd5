"""Serve the files of the page from the package, with headers that forbid loading anything from elsewhere."""

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
    """Return the routes of the page at /ui/, and a redirect from /. Files need no token; the data that the page requests does."""
    return [
        Route("/", _redirect_to_page, methods=["GET"]),
        Route("/ui", _redirect_to_page, methods=["GET"]),
        Route("/ui/", _serve_file, methods=["GET"]),
        Route("/ui/{name}", _serve_file, methods=["GET"]),
    ]


async def _redirect_to_page(request: Request) -> Response:
    return RedirectResponse("/ui/", status_code=307)


async def _serve_file(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    files_by_name = page_files()
    if name not in files_by_name:
        return error_response(404, f"the page has no file '{name[:100]}'")
    content, tag, media_type = files_by_name[name]
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    """Return the content, the ETag and the media type of every file of the page, by name."""
    files_by_name = {}
    for entry in files("holdfast.ui").joinpath("static").iterdir():
        suffix = f".{entry.name.rpartition('.')[2]}"
        if suffix in TYPES:
            content = entry.read_bytes()
            files_by_name[entry.name] = content, f'"{hashlib.sha256(content).hexdigest()[:20]}"', TYPES[suffix]
    return files_by_name
