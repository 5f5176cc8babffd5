"""The statements of PPA about plans in a correlated failure (Figure 10, section VI-B), checked with the real runs of the tree.

A comparison holds if the 95 % interval of the difference over seeds is above zero, so that it needs at least two seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from scipy.stats import t

from holdfast_papers.finding import Finding

Row = Mapping[str, Any]
CLOSE = 0.1
"""How far the accuracy of tentative output may be from the fidelity that the plan promises."""


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean by Student's t, or None for fewer than two values.

    >>> [round(end, 2) for end in interval([1.0, 2.0, 3.0])]
    [-0.48, 4.48]
    """
    if len(values) < 2:
        return None
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean(values) - half, mean(values) + half


def describe(values: Sequence[float], unit: str = " s") -> str:
    """Describe a mean with its interval and the number of runs."""
    if not values:
        return "not measured"
    ends = interval(values)
    text = "" if ends is None else f" ({ends[0]:.2f} to {ends[1]:.2f})"
    return f"{mean(values):.2f}{unit}{text}, {len(values)} run{'s' if len(values) > 1 else ''}"


def findings(rows: Sequence[Row]) -> list[Finding]:
    """Check the statements with the runs that exist."""
    half = [row for row in rows if row["plan"] == "PPA-0.5"]
    accuracies = [mean(row["accuracy"]) for row in half if row["accuracy"]]
    fidelity = half[0]["fidelity"] if half else 0.0
    return [
        _sooner(rows, ("PPA-1.0", "exact_s"), ("PPA-0.5", "exact_s"), "PPA-1.0's exact output is back before PPA-0.5's"),
        _sooner(rows, ("PPA-0.5", "exact_s"), ("PPA-0", "exact_s"), "PPA-0.5's exact output is back before PPA-0's"),
        _sooner(rows, ("PPA-0.5", "tentative_s"), ("PPA-0.5", "exact_s"), "PPA-0.5's tentative output precedes its exact output"),
        _sooner(rows, ("PPA-0.5", "tentative_s"), ("PPA-0", "exact_s"), "PPA-0.5's tentative output precedes PPA-0's exact output"),
        Finding(
            "tree: PPA-0.5's tentative output is as accurate as its fidelity promises",
            "quite close to OF",
            f"accuracy {describe(accuracies, '')}; fidelity {fidelity:.2f}",
            len(accuracies) > 1 and fidelity > 0 and all(abs(each - fidelity) <= CLOSE for each in accuracies),
        ),
    ]


def _sooner(rows: Sequence[Row], early: tuple[str, str], late: tuple[str, str], name: str) -> Finding:
    """Check that one time is below another in runs of the same seed."""
    times = [{row["seed"]: row[figure] for row in rows if row["plan"] == plan} for plan, figure in (early, late)]
    pairs = [(times[0][seed], times[1][seed]) for seed in sorted(times[0].keys() & times[1].keys())]
    pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    ends = interval([b - a for a, b in pairs])
    ours = f"{describe([a for a, _ in pairs])} against {describe([b for _, b in pairs])}"
    return Finding(f"tree: {name}", "in this order (Figure 10)", ours, ends is not None and ends[0] > 0)
