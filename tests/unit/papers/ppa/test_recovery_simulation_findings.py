"""Findings of the simulated study of recovery."""

import numpy as np

from holdfast_papers.ppa.recovery_simulation import techniques
from holdfast_papers.ppa.recovery_simulation_findings import findings

RATES, WINDOWS_S = (1000.0, 2000.0), (10.0, 30.0)
PLANS = ("PPA-1.0", "PPA-0.5", "PPA-0.5-active", "PPA-0")


def as_the_paper_says() -> dict[str, list[dict[str, object]]]:
    """Figures 7 to 10 as section VI-A describes them."""

    def single(name: str, rate: float, window_s: float, operator: int) -> float:
        if name.startswith("active"):
            return 0.5
        rest = float(name.split()[1]) if name.startswith("checkpoint") else window_s * (1 + operator)
        return 1 + rate / 1000 * (rest + 0.01 * window_s)

    def correlated(name: str, rate: float, window_s: float) -> float:
        if name.startswith("active"):
            return 1 + 0.01 * float(name.split()[2])
        return 3 + rate / 1000 * (2 * float(name.split()[1]) if name.startswith("checkpoint") else window_s)

    rows: list[dict[str, object]] = []
    for name in (technique.name for technique in techniques(("O1/0",))):
        for rate in RATES:
            for window_s in WINDOWS_S:
                at = {f"O{n + 1}": single(name, rate, window_s, n) for n in range(4)}
                about = {"technique": name, "rate": rate, "window_s": window_s, "by_operator_s": at}
                rows.append(about | {"single_s": np.mean(list(at.values())), "correlated_s": correlated(name, rate, window_s)})
    latencies = dict(zip(PLANS, (1.2, 9.0, 1.1, 9.5), strict=True))
    return {
        "recovery": rows,
        "checkpoint_cost": [{"rate": rate, "checkpoint_s": s, "share": 3 / s} for rate in RATES for s in (1.0, 5.0, 15.0, 30.0)],
        "partial": [{"plan": plan, "rate": rate, "latency_s": latencies[plan]} for plan in PLANS for rate in RATES],
    }


def test_findings_of_ppa_follow_the_figures():
    figures = as_the_paper_says()
    assert [finding.name for finding in findings(figures) if not finding.holds] == []
    for row in figures["recovery"]:
        row |= {"single_s": 1.0, "correlated_s": 1.0, "by_operator_s": dict.fromkeys(("O1", "O2", "O3", "O4"), 1.0)}
    for row in (*figures["checkpoint_cost"], *figures["partial"]):
        row |= {"share": 0.1} if "share" in row else {"latency_s": 1.0}
    held = [finding.name for finding in findings(figures) if finding.holds]
    later = "Figure 10: PPA-0.5's replicated tasks are back no later than PPA-1.0's"
    assert held == [later]
    for row in figures["partial"]:
        row["latency_s"] = 2.0 if row["plan"] == "PPA-0.5-active" else 1.0
    assert later not in [finding.name for finding in findings(figures) if finding.holds]
