"""The simulated study of recovery (PPA, section VI-A)."""

from holdfast_papers.ppa.recovery_simulation import HALF, figure_6, plans
from holdfast_papers.ppa.recovery_simulation import failed as failed_run


def test_every_task_of_figure_6_recovers_from_a_correlated_failure():
    descriptor = figure_6(1000.0)
    assert len(descriptor.pes) == 15
    assert set(HALF) < set(descriptor.pes)
    tasks = descriptor.topological_order
    half = plans(tasks)[1]
    outcome = failed_run(half, rate=1000.0, window_s=10.0, nodes=[f"node {task}" for task in tasks], at_s=90.0)
    back = {recovery.pe: recovery.by for recovery in outcome.recoveries()}
    assert back == {task: "takeover" if task in HALF else "checkpoint" for task in tasks}
    assert outcome.internal_completeness > 0.99
