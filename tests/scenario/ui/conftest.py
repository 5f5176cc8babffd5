"""Debian's Chromium, and a control plane with light PEs for it to look at."""

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
    """A browser for the tests of one file (while it is open, its event loop is this thread's). Skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing; pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cluster(chromium, tmp_path_factory) -> Iterator[ProcessCluster]:
    """An orchestrator that allows faults, three nodes and a running job: real processes, light PEs."""
    with ProcessCluster(tmp_path_factory.mktemp("page"), serve_options=["--beat", "0.1", "--faults"]) as made:
        made.start_orchestrator()
        for name in ("n1", "n2", "n3"):
            made.start_node(name)
        made.wait_for_nodes(3)
        number = made.client.submit(Job(job="bargains", host_kind="light", pes=PES))
        made.client.wait_for(number, ["running"], limit_s=60)
        yield made


@pytest.fixture
def address(cluster) -> tuple[str, str]:
    """Where the page is, and the user token."""
    return (cluster.folder / "address").read_text().strip(), (cluster.folder / "user.token").read_text().strip()


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Any]]:
    """Opens pages; in the end no page may have said an error or asked anybody else for anything."""
    wrong: list[str] = []

    @contextmanager
    def opened(url: str, *, width: int = 1280, height: int = 900, forgiven: str = "nothing", **settings: Any) -> Iterator[Any]:
        context = chromium.new_context(viewport={"width": width, "height": height}, **settings)
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        page.on(
            "console",
            lambda said: wrong.append(said.text) if said.type in ("error", "warning") and forgiven not in said.text else None,
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        home = url.split("/ui/")[0]
        page.on("request", lambda asked: None if asked.url.startswith((home, "data:")) else wrong.append(f"asked for {asked.url}"))
        page.goto(url)
        yield page
        context.close()

    yield opened
    assert wrong == []
