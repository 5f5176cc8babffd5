"""The page's data of a running orchestrator: an error of one job does not affect the others."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from holdfast.documents.job import Job, Layout, Task
from holdfast.errors import HoldfastError
from holdfast.log.timeline import Timeline
from holdfast.ui.live_page_data import LivePageData

TASKS = (Task(pe="in", kind="source", makes=("in",)),)
TIMELINE = Timeline(first=100, last=None, epoch_s=2.0, opened_s=0.0, speed=4.0)


def job(number):
    document = Job(job=f"j{number}", application="a.py", log=f"log-{number}")
    lifecycle = SimpleNamespace(state="running", history=[])
    return SimpleNamespace(
        id=number, name=document.job, document=document, layout=Layout(application="a", tasks=TASKS), lifecycle=lifecycle,
        ended=False, reason="", submitted_s=0.0,
    )  # fmt: skip


@pytest.fixture
def page_data():
    """Three jobs, each with its own log and without replicas."""
    jobs = {number: job(number) for number in (1, 2, 3)}
    graph = SimpleNamespace(layouts=jobs, uses=lambda number: [(number, task) for task in TASKS])
    return LivePageData(
        SimpleNamespace(
            jobs=jobs,
            dataflow=SimpleNamespace(graph=graph),
            replicas=SimpleNamespace(of=lambda owner, names: []),
            resources=SimpleNamespace(nodes={}),
            time=SimpleNamespace(now_s=lambda: 1000.0),
        )
    )


def test_failing_or_hanging_log_delays_no_sample_and_is_reported(page_data, monkeypatch):
    released = threading.Event()

    def timeline_of(store):
        match str(store.root).rpartition("-")[2]:
            case "3":
                raise HoldfastError("no credentials for log-3")
            case "2":
                released.wait(30)
        return TIMELINE

    monkeypatch.setattr("holdfast.log.timeline.read_timeline", timeline_of)
    monkeypatch.setattr("holdfast.log.Store", lambda root: SimpleNamespace(root=root))

    async def take_samples():
        await page_data.sample()
        while page_data.picture_version(1)[2] is None:
            await asyncio.sleep(0.01)
        with pytest.raises(HoldfastError, match="no credentials for log-3"):
            await page_data.sample()
        epoch_bases = [page_data.picture_version(number)[2] for number in (1, 2, 3)]
        released.set()
        return epoch_bases

    assert asyncio.run(asyncio.wait_for(take_samples(), timeout=20)) == [99, None, None]
    assert [len(page_data.samples(number, 0.0)) for number in (1, 2, 3)] == [2, 2, 2]
    assert {line["id"]: line["quality"] for line in page_data.jobs()} == {3: None, 2: None, 1: None}
