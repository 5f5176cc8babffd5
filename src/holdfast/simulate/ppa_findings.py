"""What PPA's section VI-A says of Figures 7 to 10, as checks of the simulated study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.model.finding import Finding
from holdfast.simulate.ppa_study import CHECKPOINTS_S, RATES, SYNCS_S, WINDOWS_S


def findings(found: Mapping[str, Any]) -> list[Finding]:
    """The checks of what `ppa_study.study` gives."""
    rows = found["recovery"]

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
        said = f"active {spread(figure, active)}, passive {spread(figure, passive)}"
        checks.append(Finding(f"Figure {number}: active replicas recover fastest", "much lower than the passive ones", said, lower))
    by_interval = [value("single_s", f"checkpoint {s:g} s", 2000.0, 30.0) for s in CHECKPOINTS_S]
    storm = [value("single_s", "source replay", 2000.0, window_s) for window_s in WINDOWS_S]
    sync = [value("correlated_s", name, 2000.0, 30.0) for name in active]
    higher = [value("single_s", "source replay", *c) > value("single_s", p, *c) for p in passive[:-1] for c in cases]
    gain = [value("correlated_s", passive[1], *c) - value("correlated_s", active[0], *c) for c in cases]
    alone = [value("single_s", passive[1], *c) - value("single_s", active[0], *c) for c in cases]
    shares = [row["share"] for row in found["checkpoint_cost"]]
    of = {(row["plan"], row["rate"]): row["latency_s"] for row in found["partial"]}
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
            by_interval == sorted(by_interval),
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
            "Figure 9: checkpoints cost more the more often they are made; every second is prohibitive",
            "prohibitively expensive at 1 s",
            ", ".join(f"{r['checkpoint_s']:g} s: {r['share']:.0%}" for r in found["checkpoint_cost"]),
            shares == sorted(shares, reverse=True) and shares[0] > 1,
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
    ]
