"""A node as a process: what is left of it when its controller ends by a mistake of its own."""

import asyncio

import pytest

from holdfast.manage.controller import Controller, Node
from holdfast.manage.files import LOG
from holdfast.manage.hosts import living_host
from holdfast.manage.node import serve_node

NODE = Node("n1", cores=1, memory_bytes=2**20, host="light")


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # that is what this is about
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_controller_that_breaks_says_what_becomes_of_its_pe_host_and_the_next_one_takes_it_up(tmp_path, monkeypatch, capsys):
    work = tmp_path / "n1"
    found: list[int] = []

    async def host_is_up(controller: Controller) -> None:
        while controller.host.status() is None or (host := living_host(work)) is None:
            await asyncio.sleep(0.02)
        found.append(host)

    async def broken(controller: Controller) -> None:
        await host_is_up(controller)
        raise KeyError("odd")

    monkeypatch.setattr(Controller, "_talk", broken)
    with pytest.raises(KeyError, match="odd"):
        serve_node(NODE, work, orchestrator=str(tmp_path))
    try:
        assert (
            f"the controller of node n1 ends by a mistake of its own (KeyError: 'odd'), told below; its PE host (process {found[0]}) "
            f"goes on: start the node again with --work {work} to take it up, or end it with 'kill {found[0]}'"
        ) in capsys.readouterr().err
    finally:
        monkeypatch.setattr(Controller, "_talk", host_is_up)  # whose end is that of the node, in good order
        serve_node(NODE, work, orchestrator=str(tmp_path))
    assert found == [found[0]] * 2
    assert living_host(work) is None
    assert (work / LOG).read_text() == ""
