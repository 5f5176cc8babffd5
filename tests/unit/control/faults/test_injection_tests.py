"""Fault-injection tests: documents of tests, faults in state machines, and the injection of faults."""

from dataclasses import replace

import pytest

from holdfast.control.faults.fault_library import LIBRARY
from holdfast.control.faults.injection_tests import (
    ACTION,
    InjectionTest,
    InjectionTests,
    add_faults,
    check_tests,
    read_tests,
)
from holdfast.control.jobs.machine_document import shipped_machines, split_action
from holdfast.control.nodes import resource_manager
from holdfast.control.plugins import shipped_actions
from holdfast.documents.document import document_text, parse_document
from holdfast.errors import DocumentError
from holdfast_papers.system_s.injection.generated_tests import generate_tests

from ..conftest import SimulatedNode, alive, running

MACHINES = shipped_machines(shipped_actions())


def test_fault_is_added_at_its_moment_to_a_copy():
    machine = MACHINES["streaming"]
    tests = [
        InjectionTest(state="running", transition="cancel", fault="raise", moment=moment) for moment in ("before", "after", "done")
    ]
    faulty = add_faults(machine, tests).states["running"].transitions["cancel"]
    assert [split_action(action)[0] for action in faulty.before] == [ACTION]
    assert [split_action(action)[0] for action in faulty.do] == [ACTION, "dispatch.stop", ACTION]
    assert split_action(faulty.do[0])[1]["fault"] == "raise"
    assert machine.states["running"].transitions["cancel"].before == ()
    assert add_faults(MACHINES["finite"], tests) == MACHINES["finite"]


def test_generated_tests_cover_all_transitions_and_round_trip():
    machine = MACHINES["streaming"]
    tests = list(generate_tests(machine, {"raise": {}, "delay": {"by_s": 1.0}}))
    rows = list(machine.transitions())
    without_actions = sum(not row.do for _, _, row in rows)
    assert len(tests) == len({test.name for test in tests}) == 2 * (3 * len(rows) - without_actions)
    document = InjectionTests(seed=3, tests=tuple(tests))
    assert parse_document(document_text(document), InjectionTests) == document


def test_all_unknown_names_in_tests_are_reported():
    tests = [
        InjectionTest(state="runing", transition="cancel", fault="raise"),
        InjectionTest(state="running", transition="parsed", fault="rais"),
        InjectionTest(machine="other", state="running", transition="parsed", fault="raise"),
    ]
    with pytest.raises(DocumentError) as caught:
        check_tests(tests, MACHINES, faults=LIBRARY)
    assert len(caught.value.errors) == 4
    assert "tests[0].state: machine 'streaming' has no state 'runing'; states are: submitted, parsing" in str(caught.value)
    assert "tests[1].fault: there is no fault 'rais'; faults are: crash-controller, crash-host" in str(caught.value)
    assert "tests[1].transition: state 'running' has no transition 'parsed'; transitions are: activate, cancel" in str(caught.value)
    assert "tests[2].machine: there is no machine 'other'; machines are: finite, streaming" in str(caught.value)
    with pytest.raises(DocumentError, match=r"tests\[0\].trigger.max_s \(line 1\): wanted a number of at least 3, got 1"):
        parse_document("tests: [{state: a, transition: b, fault: c, trigger: {min_s: 3, max_s: 1}}]", InjectionTests)


def test_type_errors_and_unknown_names_are_reported_with_lines(tmp_path):
    path = tmp_path / "tests.yaml"
    path.write_text(
        "tests:\n"
        "- {state: runing, transition: cancel, fault: 5}\n"
        "- {state: running, transition: parsed, fault: rais, moment: never, trigger: {min_s: 2, max_s: 1, times: many}}\n"
    )
    with pytest.raises(DocumentError) as caught:
        read_tests(path, MACHINES, faults=LIBRARY)
    assert [error.split(",")[0].split(";")[0] for error in caught.value.errors] == [
        "tests[0].fault (line 2): wanted text",
        "tests[1].moment (line 3): wanted one of 'before'",
        "tests[1].trigger.times (line 3): wanted a whole number",
        "tests[1].trigger.max_s (line 3): wanted a number of at least 2",
        "tests[0].state (line 2): machine 'streaming' has no state 'runing'",
        "tests[1].fault (line 3): there is no fault 'rais'",
        "tests[1].transition (line 3): state 'running' has no transition 'parsed'",
    ]


async def test_fault_without_target_is_reported_as_not_injected(settings, tmp_path):
    tests = tmp_path / "tests.yaml"
    tests.write_text(
        "tests: [{state: parsing, transition: parsed, fault: crash-pe}, {state: mapping, transition: mapped, fault: database-away}]"
    )
    async with running(replace(settings, inject=(tests,))) as control, alive(SimulatedNode(control, "n1")):
        await control.reaches(await control.submit(), "running")
        events = (await control.call("GET", "/v1/events")).json()["events"]
        injections = [event["data"] for event in events if event["kind"] == "fault"]
        assert [(data["fault"], data.get("missed")) for data in injections] == [
            ("crash-pe", None),
            ("crash-pe", "no replica to inject the fault into: wanted PE any on node any"),
            ("database-away", None),
        ]
        assert len({data["test"] for data in injections[:2]}) == 1


async def test_tests_that_differ_only_in_target_inject_separately(settings, tmp_path):
    at = "state: mapping, transition: mapped, fault: delay, settings: {by_s: 0}"
    also = ("trigger: {job: 1}", "trigger: {job: 2, times: 2}", "node: n1, trigger: {job: 2}", "pe: x, trigger: {job: 2}")
    tests = tmp_path / "tests.yaml"
    tests.write_text("tests:\n" + "".join(f"- {{{at}, {more}}}\n" for more in also))
    async with running(replace(settings, inject=(tests,))) as control, alive(SimulatedNode(control, "n1")):
        for name in ("a", "b"):
            await control.reaches(await control.submit(name), "running")
        events = (await control.call("GET", "/v1/events")).json()["events"]
        assert [event["job"] for event in events if event["kind"] == "fault"] == [1, 2, 2, 2]


async def test_node_of_another_machine_injects_a_process_fault(settings, monkeypatch):
    monkeypatch.setattr(resource_manager, "FAULT_TAKEN_S", 0.3)
    async with running(settings) as control, alive(node := SimulatedNode(control, "n1")):
        number = await control.submit()
        await control.reaches(number, "running")
        injected = await control.call("POST", "/v1/faults", json={"fault": "crash-pe", "pe": "x"})
        assert injected.status_code == 202
        assert [(order["kind"], order["target"]) for order in node.faults] == [("crash-pe", f"{number}:x/0.0")]
        assert control.orchestrator.resources.nodes["n1"].faults == ()
        node.takes_faults = False
        refused = await control.call("POST", "/v1/faults", json={"fault": "crash-host", "node": "n1"})
        assert refused.json()["error"] == "node 'n1' did not accept the fault within 0.3 s"
        assert control.orchestrator.resources.nodes["n1"].faults == ()  # a late node does not find it
        stall = await control.call("POST", "/v1/faults", json={"fault": "stall-pe", "pe": "x"})
        assert stall.json()["error"] == "a light PE cannot stall; choose a PE on Spark, or a PE host"


async def test_invalid_fault_settings_are_reported(settings):
    tests = [
        InjectionTest(state="running", transition="cancel", fault="delay", settings={"by_s": "much", "for_s": 1}),
        InjectionTest(state="running", transition="cancel", fault="raise", settings={"by_s": 1}),
        InjectionTest(state="running", transition="cancel", fault="mine", settings={"whatever": "it takes"}),
    ]

    async def mine(context):
        """A package's own."""

    with pytest.raises(DocumentError) as caught:
        check_tests(tests, MACHINES, faults={**LIBRARY, "mine": mine})
    assert caught.value.errors == (
        'tests[0].settings.by_s: wanted seconds from 0 to 3600, got "much"',
        "tests[0].settings.for_s: is no setting of this fault; settings are: by_s",
        "tests[1].settings.by_s: is no setting of this fault; settings are: none",
    )
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        wrong = {"fault": "cut-node", "settings": {"for_s": -1, "by_s": 2}}
        answer = await control.call("POST", "/v1/faults", json=wrong)
        assert answer.status_code == 422
        assert "settings.for_s: wanted seconds from 0 to 3600, got -1" in answer.json()["error"]
        assert "settings.by_s: is no setting of this fault; settings are: for_s" in answer.json()["error"]
