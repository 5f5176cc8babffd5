"""The statements of PPA's section VI-A about Figures 7, 8 and 10, checked with the simulated study.

The simulated Figure 9 is no finding: a checkpoint's cost is a constant of the simulator that no real run has calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from holdfast_papers.finding import Finding
from holdfast_papers.ppa.recovery_simulation import CHECKPOINTS_S, RATES, SYNCS_S, WINDOWS_S


def findings(figures: Mapping[str, Any]) -> list[Finding]:
    """Check the document that `recovery_simulation.study` returns."""
    rows = figures["recovery"]

    def value(figure: str, technique: str, rate: float, window_s: float) -> float:
        match = (r for r in rows if (r["technique"], r["rate"], r["window_s"]) == (technique, rate, window_s))
        return float(next(match)[figure])

    cases = [(rate, window_s) for rate in RATES for window_s in WINDOWS_S]
    active = [f"active, sync {s:g} s" for s in SYNCS_S]
    passive = [*(f"checkpoint {s:g} s" for s in CHECKPOINTS_S), "source replay"]

    def spread(figure: str, names: Sequence[str]) -> str:
        values = [value(figure, name, *case) for name in names for case in cases]
        return f"{min(values):.2f} to {max(values):.2f} s"

    def low(technique: str) -> float:
        return value("single_s", technique, 1000.0, 30.0)

    def high(technique: str) -> float:
        return value("single_s", technique, 2000.0, 30.0)

    checks = []
    for number, figure in (("7", "single_s"), ("8", "correlated_s")):
        lower = all(value(figure, a, *case) < value(figure, p, *case) for a in active for p in passive for case in cases)
        ranges = f"active {spread(figure, active)}, passive {spread(figure, passive)}"
        checks.append(
            Finding(f"Figure {number}: active replicas recover fastest", "much lower than the passive ones", ranges, lower)
        )
        span = {name: np.ptp([value(figure, name, *case) for case in cases]) for name in (*active, *passive)}
        most, least = max(span[name] for name in active), min(span[name] for name in passive)
        checks.append(
            Finding(
                f"Figure {number}: rate and window matter least to active replicas",
                "little influence" if number == "7" else "relatively stable",
                f"between rates and windows its latencies differ by {most:.2f} s at most, passive ones by {least:.2f} s at least",
                bool(most < least),
            )
        )
    by_interval = [value("single_s", f"checkpoint {s:g} s", 2000.0, 30.0) for s in CHECKPOINTS_S]
    storm = [value("single_s", "source replay", 2000.0, window_s) for window_s in WINDOWS_S]
    sync = [value("correlated_s", name, 2000.0, 30.0) for name in active]
    higher = [value("single_s", "source replay", *c) > value("single_s", p, *c) for p in passive[:-1] for c in cases]
    gain = [value("correlated_s", passive[1], *c) - value("correlated_s", active[0], *c) for c in cases]
    alone = [value("single_s", passive[1], *c) - value("single_s", active[0], *c) for c in cases]
    steep = [[value("correlated_s", f"checkpoint {s:g} s", rate, 30.0) for s in CHECKPOINTS_S] for rate in RATES]
    place = [next(r for r in rows if (r["technique"], r["rate"], r["window_s"]) == ("source replay", *c)) for c in cases]
    deep = place[-1]["by_operator_s"]
    of = {(row["plan"], row["rate"]): row["latency_s"] for row in figures["partial"]}
    sooner = {rate: of["PPA-0.5", rate] / of["PPA-0.5-active", rate] for rate in RATES}
    return [
        *checks,
        Finding(
            "Figure 7: passive recovery grows with the rate",
            "proportionally",
            ", ".join(
                f"{p} {value('single_s', p, 1000.0, 30.0):.1f} to {value('single_s', p, 2000.0, 30.0):.1f} s" for p in passive
            ),
            all(low(p) < high(p) for p in passive),
        ),
        Finding(
            "Figure 7: recovery from checkpoints grows with their interval",
            "increases",
            ", ".join(f"{x:.1f}" for x in by_interval) + " s",
            _ascend(by_interval),
        ),
        Finding(
            "Figure 7: source replay grows with the window",
            "higher for 30 s",
            ", ".join(f"{x:.1f}" for x in storm) + " s",
            storm[0] < storm[1],
        ),
        Finding(
            "Figure 7: source replay is slower than checkpoints in most cases",
            "most",
            f"{sum(higher)} of {len(higher)} cases",
            sum(higher) > len(higher) / 2,
        ),
        Finding(
            "Figure 7: source replay takes longer far from the sources",
            "the location of the failed task influences it",
            ", ".join(f"{operator} {x:.1f} s" for operator, x in deep.items()),
            all(_ascend(list(row["by_operator_s"].values())) for row in place),
        ),
        Finding(
            "Figure 8: recovery from checkpoints grows with the rate and with their interval",
            "increases rapidly with both",
            "; ".join(f"{rate:g} tuples/s: {', '.join(f'{x:.1f}' for x in row)} s" for rate, row in zip(RATES, steep, strict=True)),
            all(_ascend(row) for row in (*steep, *zip(*steep, strict=True))),
        ),
        Finding(
            "Figure 8: replicas synchronised more often take over faster",
            "faster",
            ", ".join(f"{name} {x:.2f} s" for name, x in zip(active, sync, strict=True)),
            sync[0] < sync[1],
        ),
        Finding(
            "Figure 8: source replay beats checkpoints of 30 s",
            "lower",
            ", ".join(
                f"{value('correlated_s', 'source replay', *c):.1f} against {value('correlated_s', 'checkpoint 30 s', *c):.1f} s"
                for c in cases
            ),
            all(value("correlated_s", "source replay", *c) < value("correlated_s", "checkpoint 30 s", *c) for c in cases),
        ),
        Finding(
            "active replicas gain more in a correlated failure",
            "larger",
            f"{np.mean(gain):.1f} s saved over checkpoints of 15 s, {np.mean(alone):.1f} s for a single node",
            all(g > a for g, a in zip(gain, alone, strict=True)),
        ),
        Finding(
            "Figure 10: PPA-1.0 is back before PPA-0.5, and that before PPA-0",
            "in this order",
            ", ".join(f"{name} {of[name, 2000.0]:.2f} s" for name in ("PPA-1.0", "PPA-0.5", "PPA-0")),
            all(of["PPA-1.0", r] < of["PPA-0.5", r] < of["PPA-0", r] for r in RATES),
        ),
        Finding(
            "Figure 10: PPA-0.5's replicated tasks are back no later than PPA-1.0's",
            "slightly less time",
            f"{of['PPA-0.5-active', 2000.0]:.2f} s against {of['PPA-1.0', 2000.0]:.2f} s",
            all(of["PPA-0.5-active", r] <= of["PPA-1.0", r] for r in RATES),
        ),
        Finding(
            "Figure 10: PPA-0.5's replicated tasks, and so tentative output, are back long before all tasks",
            "much lower; up to 10 times sooner (section VIII)",
            ", ".join(f"{sooner[r]:.1f} times sooner at {r:g} tuples/s" for r in RATES),
            all(times > 2 for times in sooner.values()),
        ),
    ]


def _ascend(values: Sequence[float]) -> bool:
    """Return whether each value is greater than the one before."""
    return all(before < after for before, after in pairwise(values))
