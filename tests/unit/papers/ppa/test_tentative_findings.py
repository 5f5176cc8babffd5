"""The paper's statements about tentative output, checked on artificial rows."""

import pytest

from holdfast_papers.ppa.tentative_findings import findings

PLANNERS = ("DP", "structure-aware", "greedy", "ours")


def rows(
    *,
    of_off: float = 0.0,
    ic_off: float = 0.0,
    joined_off: float = 0.4,
    greedy: float = 0.2,
    ours: float = 0.5,
    aware: float = 0.48,
):
    worth = {"DP": 0.5, "structure-aware": aware, "greedy": greedy, "ours": ours}
    records = []
    for query in ("Q1", "Q2"):
        for planner in PLANNERS:
            fidelity = worth[planner]
            figures = {"fidelity": fidelity, "completeness": fidelity, "accuracy": fidelity + of_off}
            records.append({"query": query, "planner": planner, "objective": "OF", "ratio": 0.5, **figures})
        off = ic_off if query == "Q1" else joined_off
        figures = {"fidelity": 0.0, "completeness": 0.6, "accuracy": 0.6 - off}
        records.append({"query": query, "planner": "structure-aware", "objective": "IC", "ratio": 0.5, **figures})
    return records


def held(**how: float) -> list[bool]:
    return [finding.holds for finding in findings(rows(**how))]


def test_findings_hold_with_the_papers_figures():
    assert held() == [True] * 6


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ({"ic_off": 0.3}, [0]),
        ({"of_off": 0.3}, [0, 1]),
        ({"joined_off": 0.05}, [2]),
        ({"aware": 0.3}, [3]),
        ({"greedy": 0.49}, [4]),
        ({"ours": 0.49}, [5]),
    ],
)
def test_each_finding_can_fail(how, broken):
    assert [number for number, holds in enumerate(held(**how)) if not holds] == broken
