"""The findings of System-S's experiments depend on the runs alone."""

from dataclasses import asdict, replace

import pytest

from holdfast_papers.system_s.recovery_study import BEYOND, FIGURE_8, DispatchRun, Run, findings

ROWS = (*FIGURE_8, *BEYOND)
BASE = Run("5", 90, 30, 930, False, start_s=6.0, again_s=6.0, recover_s=1.0, boot_s=0.8, restarted=0, lost=0)
LARGE = replace(BASE, row="1,000 nodes", nodes=1000, jobs=323, pes=10_013, recover_s=9.0)


def verdicts(*runs, dispatch=None):
    return {finding.name: finding.holds for finding in findings(ROWS, runs, dispatch)}


def test_findings_cover_the_rows_that_were_run():
    assert verdicts(BASE, LARGE, dispatch=DispatchRun(73, 32, 16, 1.0, 0, 0)) == {
        "no PE is restarted and none is lost when the orchestrator is killed": True,
        "after a crash during a dispatch, the dispatch is finished and no PE starts twice": True,
        "recovering 930 PEs on 90 nodes takes less than a third of starting them": True,
        "recovery grows at most linearly from 930 PEs on 90 nodes to 10,013 on 1,000": True,
    }


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"restarted": 1}, "no PE is restarted"),
        ({"lost": 1}, "no PE is restarted"),
        ({"recover_s": 11.0}, "recovery grows at most linearly"),
    ],
)
def test_changed_run_fails_only_its_finding(changed, fails):
    holds_by_name = verdicts(BASE, replace(LARGE, **changed))
    assert [name for name, holds in holds_by_name.items() if not holds] == [
        name for name in holds_by_name if name.startswith(fails)
    ]


def test_recovery_of_more_than_a_third_fails():
    slow = replace(BASE, recover_s=2.1)
    assert not verdicts(slow)["recovering 930 PEs on 90 nodes takes less than a third of starting them"]


def test_findings_have_the_fields_of_the_report():
    first = findings(ROWS, [BASE], None)[0]
    assert asdict(first) == {
        "name": "no PE is restarted and none is lost when the orchestrator is killed",
        "paper": "none",
        "ours": "1 crashes, 0 PEs restarted, 0 lost",
        "holds": True,
    }


@pytest.mark.parametrize(("dispatched", "holds"), [(0, False), (16, True), (32, False)])
def test_crash_counts_only_in_the_middle_of_a_dispatch(dispatched, holds):
    name = "after a crash during a dispatch, the dispatch is finished and no PE starts twice"
    assert verdicts(BASE, dispatch=DispatchRun(73, 32, dispatched, 1.0, 0, 0))[name] is holds
