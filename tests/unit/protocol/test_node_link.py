"""The calls of a node to its orchestrator: which answer raises which error, and how the orchestrator is located."""

import asyncio

import pytest

from holdfast.protocol.http_client import HttpResponse
from holdfast.protocol.messages import Beat, Registration
from holdfast.protocol.node_link import (
    CallRefused,
    NodeLink,
    NodeNameTaken,
    NoLeader,
    OrchestratorAddress,
    OrchestratorBusy,
    OrchestratorSuperseded,
    OrchestratorUnreachable,
    RegistrationOutdated,
    locate_orchestrator,
)


class Scripted:
    """An HttpClient that always gives the same answer."""

    def __init__(self, status: int, content: bytes) -> None:
        self.response = HttpResponse(status, content)

    async def call(self, method, url, *, headers, body=None, limit_s):
        return self.response

    async def close(self):
        pass


def link(status: int, content: bytes) -> NodeLink:
    return NodeLink("n1", lambda: OrchestratorAddress(("http://orchestrator",), "t"), Scripted(status, content))


@pytest.mark.parametrize(
    ("status", "content", "error", "text"),
    [
        (409, b'{"error": "unknown"}', RegistrationOutdated, "answered 409: unknown"),
        (429, b'{"error": "wait"}', OrchestratorBusy, "answered 429: wait"),
        (503, b'{"error": "recovering"}', OrchestratorBusy, "answered 503: recovering"),
        (500, b"a page", OrchestratorUnreachable, "answered 500: a page"),
        (403, b"no", CallRefused, "answered 403: no"),
        (403, b"", CallRefused, "answered 403: an empty body"),
        (200, b"[]", CallRefused, "the orchestrator's answer is not a Assignment"),
    ],
)
def test_answer_decides_the_error(status, content, error, text):
    with pytest.raises(error, match=text):
        asyncio.run(link(status, content).assignment(1, 1, controller="c"))


async def test_node_registers_with_the_orchestrator_that_leads():
    answers = {
        "http://standby/v1/nodes": HttpResponse(421, b'{"error": "a standby"}'),
        "http://old/v1/nodes": HttpResponse(200, b'{"term": 1, "generation": 1, "every_s": 1, "acknowledged": 0}'),
        "http://leader/v1/nodes": HttpResponse(200, b'{"term": 2, "generation": 1, "every_s": 1, "acknowledged": 0}'),
        "http://leader/v1/nodes/n1/beat": HttpResponse(200, b'{"term": 2, "acknowledged": 0, "generation": 1}'),
    }

    class Orchestrators(Scripted):
        async def call(self, method, url, *, headers, body=None, limit_s):
            return answers[url]

    urls = ("http://standby", "http://old", "http://leader")
    several = NodeLink("n1", lambda: OrchestratorAddress(urls, "t"), Orchestrators(200, b""))
    registration = Registration(name="n1", heard=2, cores=1, memory_bytes=1)
    assert (await several.register(registration)).term == 2
    assert (await several.beat(Beat(term=2))).term == 2
    answers["http://leader/v1/nodes"] = answers["http://old/v1/nodes"]
    with pytest.raises(OrchestratorSuperseded, match="has already obeyed term 2; if its database is a restored backup"):
        await several.register(registration)
    answers["http://leader/v1/nodes"] = answers["http://old/v1/nodes"] = HttpResponse(502, b"")
    with pytest.raises(NoLeader):  # the node tries again soon, because a standby is about to lead
        await several.register(registration)


def test_no_content_means_no_newer_assignment():
    assert asyncio.run(link(204, b"").assignment(1, 1, controller="c")) is None


def test_registration_conflict_means_the_name_is_taken():
    with pytest.raises(NodeNameTaken, match=r"answered 409: another"):
        asyncio.run(link(409, b'{"error": "another"}').register(Registration(name="n1", cores=1, memory_bytes=1)))


def test_orchestrator_is_located_by_its_folder_at_every_call(tmp_path):
    locate = locate_orchestrator(str(tmp_path), None)
    with pytest.raises(OrchestratorUnreachable, match=r"address' cannot be read"):
        locate()
    (tmp_path / "address").write_text("http://127.0.0.1:1/\n")
    (tmp_path / "node.token").write_text("secret\n")
    assert locate() == OrchestratorAddress(("http://127.0.0.1:1",), "secret")
    (tmp_path / "address").write_text("http://127.0.0.1:2\n")
    assert locate().urls == ("http://127.0.0.1:2",)
