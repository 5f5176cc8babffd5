"""Verdicts of injection trials, and the classification of faults."""

from dataclasses import replace

from holdfast.control.faults.fault_library import LIBRARY
from holdfast.control.faults.injection_tests import InjectionTest
from holdfast_papers.system_s.injection.injection_trial import KILLS_CONTROLLER, MAY_RESTART_PES, InjectionVerdict, bears_mark


def test_verdict_distinguishes_healed_from_not_injected():
    test = InjectionTest(state="parsing", transition="parsed", fault="crash-pe")
    injected, missed = (
        InjectionVerdict(test, True, (), "running", 1.0),
        InjectionVerdict(test, False, (), "running", 1.0, "no target"),
    )
    assert (injected.healed, injected.passed) == (True, True)
    assert (missed.healed, missed.passed, missed.document()["missed"]) == (False, True, "no target")
    assert not replace(missed, errors=("a PE was lost",)).passed
    assert not replace(missed, missed="").passed


def test_crash_node_kills_controller_and_pe_host():
    assert set(LIBRARY) > KILLS_CONTROLLER | MAY_RESTART_PES
    assert "crash-node" in KILLS_CONTROLLER & MAY_RESTART_PES


def test_death_counts_as_the_fault_only_with_its_signal_and_its_line():
    crash = InjectionTest(state="running", transition="cancel", fault="crash-orchestrator", moment="before")
    line = "fault crash-orchestrator at running.cancel (before) of job 7\n"
    assert bears_mark(crash, -9, f"serving\n{line}")
    assert not bears_mark(crash, -9, "serving\n")
    assert not bears_mark(crash, 1, line)
    assert not bears_mark(crash, -15, line)
    assert not bears_mark(crash, -9, line.replace("before", "after"))
    assert not bears_mark(crash.model_copy(update={"fault": "delay"}), -9, line)
