"""The files of the page load nothing from elsewhere, run nothing inline, and are complete."""

import asyncio
import re

import httpx
from starlette.applications import Starlette

from holdfast.ui.page_files import page_files, page_routes


def get(path, **headers):
    async def request():
        transport = httpx.ASGITransport(Starlette(routes=page_routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(request())


def test_page_loads_nothing_from_elsewhere_and_runs_nothing_inline():
    answer = get("/ui/")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|<style", answer.text)
    for name, (content, _, _) in page_files().items():
        addresses = set(re.findall(rb"https?://[^\s\"')]+", content)) - {b"http://www.w3.org/2000/svg"}
        assert not addresses, f"{name} names {addresses}"


def test_every_referenced_file_and_element_exists():
    files = page_files()
    for name, (content, _, _) in files.items():
        for other in re.findall(r'(?:from|src=|href=)\s*"(?:\./)?([\w.]+\.(?:js|css|svg))"', content.decode()):
            assert other in files, f"{name} refers to {other}"
    ids = set(re.findall(r'id="([\w-]+)"', files["index.html"][0].decode()))
    for name in (name for name in files if name.endswith(".js")):
        for element in re.findall(r'(?:getElementById|get|setText|setFigure)\("([\w-]+)"[,)]', files[name][0].decode()):
            assert element in ids, f"{name} refers to element '{element}'"


def test_cached_files_are_not_sent_again_and_unknown_ones_are_404():
    first = get("/ui/main.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert get("/ui/main.js", **{"if-none-match": first.headers["etag"]}).status_code == 304
    assert get("/").headers["location"] == "/ui/"
    assert get("/ui/..%2fplugin.py").status_code == 404
    assert get("/ui/plugin.py").status_code == 404
