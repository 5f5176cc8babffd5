"""The simulation itself: it is repeatable, it covers what it claims, and schedules that once broke a law stay fixed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .faults import KINDS, Fault
from .schedule import Config, Schedule, draw_schedule, play
from .shrink import as_python, shrink

ROOT = Path(__file__).parents[2]
DIGESTS = "from tests.simulation.schedule import *; print([play(draw_schedule(seed)).digest for seed in (3, 7, 8)])"


def test_same_seed_gives_the_same_history_in_another_process():
    here = [play(draw_schedule(seed)).digest for seed in (8, 7, 3)][::-1]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run([sys.executable, "-c", DIGESTS], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)


def test_random_schedules_contain_all_kinds_of_faults():
    kinds = Counter(fault.kind for seed in range(150) for fault in draw_schedule(seed).faults)
    assert kinds.keys() == {*KINDS, "lose-power"}


def test_random_schedules_reach_what_they_are_meant_to_test():
    outcomes = [play(draw_schedule(seed)) for seed in range(12)]
    assert not [violation for outcome in outcomes for violation in outcome.violations]
    assert sum(outcome.tentative for outcome in outcomes) > 10


REGRESSIONS = {
    "A replica that was to be activated could not write its request for a checkpoint to a full log": Schedule(
        Config(seed=447103997, workload=26, replicas=(1, 1, 1, 2, 1, 1), checkpoint_epochs=10, joins_s=4.3, strategy=True),
        (
            Fault("full-disk", at_s=4.71, target="n1", operations=34, for_s=15.93),
            Fault("crash-nodes", at_s=15.28, target="n0,n2", operations=13, for_s=7.23),
        ),
    ),
    "A replica hangs while its status says that it waits for the log": Schedule(
        Config(seed=1182325790, workload=53, replicas=(1,) * 9, checkpoint_epochs=2),
        (
            Fault("full-disk", at_s=1.53, target="n2", operations=3, for_s=12.22),
            Fault("hang-replica", at_s=5.36, target="o3/0.0", operations=13, for_s=5.1),
        ),
    ),
    "A restarted orchestrator sees no more rates, and the only active replica of a task is dead": Schedule(
        Config(
            seed=1722237316,
            workload=34,
            replicas=(1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1),
            checkpoint_epochs=2,
            strategy=True,
        ),
        (
            Fault("kill-host", at_s=12.15, target="n2", operations=34, for_s=1.04),
            Fault("pause-orchestrator", at_s=12.29, target="orchestrator", operations=1, for_s=0.67),
            Fault("kill-orchestrator", at_s=14.35, target="orchestrator", operations=3, for_s=60.0),
        ),
    ),
    "A replica hangs, the strategy idles the other one, and then the log is trimmed past the hung one": Schedule(
        Config(
            seed=2058801159,
            workload=2,
            replicas=(1, 1, 2, 2, 2, 1, 1, 1),
            checkpoint_epochs=1,
            correction=False,
            secondary="eager",
            strategy=True,
        ),
        (Fault("hang-replica", at_s=9.81, target="o0/0.1", operations=21, for_s=0.37),),
    ),
    "The orchestrator, whose clock is ahead, takes a source for hung that waits for the end of its epoch": Schedule(
        Config(
            seed=1057622045,
            workload=56,
            replicas=(1,) * 10 + (2,),
            offsets_s=(-15.03, 23.26, -0.95, 21.03),
            checkpoint_epochs=3,
            observe_every_s=0.5,
            strategy=True,
        ),
        (),
    ),
    "The policy leaves the active replica dead, and upstream backup has idled the other one": Schedule(
        Config(seed=1831143181, workload=41, replicas=(1,) * 6 + (2,) + (1,) * 4, protection="upstream", restart="missing"),
        (Fault("crash-nodes", at_s=18.15, target="n0", operations=5, for_s=0.86),),
    ),
}
"""Schedules that broke a law before a defect was fixed, with fewest faults."""


@pytest.mark.parametrize("name", REGRESSIONS)
def test_schedule_that_broke_a_law_holds_all_laws_now(name):
    assert play(REGRESSIONS[name]).first == "all laws hold"


def test_failing_schedule_is_shrunk_and_printed_as_python():
    schedule = draw_schedule(5)

    def fails_if_node_dies(candidate: Schedule):
        from .laws import Violation
        from .schedule import Outcome

        violations = (Violation("rest", "made up"),) if any(f.kind == "kill-orchestrator" for f in candidate.faults) else ()
        return Outcome(violations, "", 0.0, 0, 0, 0)

    faults = (*schedule.faults, Fault("kill-orchestrator", 3.0, "orchestrator", 1, 1.0))
    smallest, _ = shrink(Schedule(schedule.config, faults), play=fails_if_node_dies)
    assert [fault.kind for fault in smallest.faults] == ["kill-orchestrator"]
    assert eval(as_python(smallest)) == smallest
