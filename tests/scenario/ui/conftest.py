"""Fixtures: Debian's Chromium, and a cluster of real processes with light PEs."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.documents.job import Job, LightPe
from holdfast.trial.process_cluster import ProcessCluster

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIMIT_MS = 30_000

PES = {
    "trades": LightPe(makes=("trades",)),
    "quotes": LightPe(makes=("quotes",)),
    "trade_filter": LightPe(reads=("trades",), makes=("filtered_trades",), replicas=2),
    "quote_filter": LightPe(reads=("quotes",), makes=("filtered_quotes",)),
    "vwap": LightPe(reads=("filtered_trades",), makes=("averages",), replicas=2),
    "bargain_index": LightPe(reads=("averages", "filtered_quotes"), makes=("bargains",)),
    "sink": LightPe(reads=("bargains",), replicas=2),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of one file, which are skipped without Chromium. It occupies this thread's event loop."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; on Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cluster(chromium, tmp_path_factory) -> Iterator[ProcessCluster]:
    """An orchestrator that allows faults, three nodes, and a running job of light PEs."""
    with ProcessCluster(tmp_path_factory.mktemp("page"), serve_options=["--beat", "0.1", "--faults"]) as processes:
        processes.start_orchestrator()
        for name in ("n1", "n2", "n3"):
            processes.start_node(name)
        processes.wait_for_nodes(3)
        number = processes.client.submit(Job(job="bargains", host_kind="light", pes=PES))
        processes.client.wait_for(number, ["running"], limit_s=60)
        yield processes


@pytest.fixture
def address(cluster) -> tuple[str, str]:
    """The orchestrator's URL and its user token."""
    return (cluster.folder / "address").read_text().strip(), (cluster.folder / "user.token").read_text().strip()


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Any]]:
    """Open pages. Fails if a page logs an error or a warning, or sends a request to another server."""
    errors: list[str] = []

    @contextmanager
    def open_page(url: str, *, width: int = 1280, height: int = 900, ignored: str = "nothing", **settings: Any) -> Iterator[Any]:
        context = chromium.new_context(viewport={"width": width, "height": height}, **settings)
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        page.on(
            "console",
            lambda line: errors.append(line.text) if line.type in ("error", "warning") and ignored not in line.text else None,
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        origin = url.split("/ui/")[0]
        page.on("request", lambda sent: None if sent.url.startswith((origin, "data:")) else errors.append(f"requested {sent.url}"))
        page.goto(url)
        yield page
        context.close()

    yield open_page
    assert errors == []
