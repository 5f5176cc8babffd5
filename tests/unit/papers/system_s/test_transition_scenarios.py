"""Scenarios that lead a job to each transition."""

import pytest

from holdfast.control.faults.fault_library import LIBRARY
from holdfast.control.faults.injection_tests import check_tests
from holdfast.control.jobs.machine_document import shipped_machines
from holdfast.control.plugins import shipped_actions
from holdfast_papers.system_s.injection.transition_scenarios import NoScenario, scenario_for

MACHINES = shipped_machines(shipped_actions())


def test_scenarios_cover_exactly_the_shipped_transitions():
    for machine in MACHINES.values():
        for state, event, _ in machine.transitions():
            scenario = scenario_for(machine.name, state, event, name="t", hold_s=1.0)
            assert scenario.ends <= machine.ends() | {"running"}
            check_tests([*scenario.helpers, *scenario.stages], MACHINES, faults=LIBRARY)
    with pytest.raises(NoScenario, match="no scenario leads to transition 'audit' of state 'running' of machine 'mine'"):
        scenario_for("mine", "running", "audit", name="t", hold_s=1.0)
