"""Plug-ins: replaced, added, and explained if they cannot be loaded."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.control.orchestrator import Orchestrator
from holdfast.control.placement.placement_manager import PlacementManager
from holdfast.control.plugins import SHIPPED, Plugin, plugin_class, plugin_names
from holdfast.errors import DocumentError, MachineError


class FirstNode(PlacementManager):
    """A placement of one's own."""


class Audit(Plugin):
    """A plug-in that machines can call."""

    action_names = ("audit.note",)

    async def note(self, job, command):
        raise AssertionError("not called here")


def orchestrator_with(settings, **plugins: str) -> Orchestrator:
    async def make() -> Orchestrator:
        orchestrator = Orchestrator(
            replace(settings, plugins={name: f"{__name__}:{kind}" for name, kind in plugins.items()}), say=print
        )
        orchestrator.persistence.database.close()
        return orchestrator

    return asyncio.run(make())


def test_plugins_are_replaced_and_added(settings, tmp_path):
    orchestrator = orchestrator_with(settings, placement="FirstNode", audit="Audit")
    assert type(orchestrator.placement).__name__ == "FirstNode"
    assert "audit.note" in orchestrator.actions
    assert [*SHIPPED, "audit"] == plugin_names({"audit": "x:y", "placement": "x:y"})


def test_unloadable_plugin_is_explained(settings, tmp_path):
    with pytest.raises(MachineError, match="there is no plug-in 'nothing'; plug-ins are: agents, api, dataflow"):
        plugin_class("nothing")
    with pytest.raises(MachineError, match="plug-in 'x' of --plugin: wanted a class at 'sys:path', got list"):
        plugin_class("x", {"x": "sys:path"})
    with pytest.raises(MachineError, match="plug-in 'x' of --plugin cannot be loaded from 'sys:nothing'"):
        plugin_class("x", {"x": "sys:nothing"})
    machine = tmp_path / "machine.toml"
    machine.write_text('machine = "m"\nbegins = "a"\n[states.a]\nnumber = 1\nend = true\nproperties = { updatedb = true }\n')
    assert "m" in orchestrator_with(replace(settings, machines=(machine,))).machines
    machine.write_text(machine.read_text().replace("end = true", 'transitions.go = { next = "a", do = ["audit.note"] }'))
    with pytest.raises(DocumentError, match=r"states.a.transitions.go.do: there is no action 'audit.note'"):
        orchestrator_with(replace(settings, machines=(machine,)))
