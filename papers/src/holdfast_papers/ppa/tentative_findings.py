"""The statements of PPA's section VI-B about Figures 12 and 13, checked with measured rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from holdfast_papers.finding import Finding

CLOSE = 0.1
"""The largest difference of two shares that count as close."""


Row = dict[str, Any]


def findings(rows: Sequence[Row]) -> list[Finding]:
    """Check the statements. Rows have `query`, `planner`, `objective`, `ratio`, `fidelity`, `completeness` and `accuracy`."""

    def chosen(query: str | None = None, planner: str = "structure-aware", objective: str = "OF") -> list[Row]:
        selected = [row for row in rows if row["planner"] == planner and row["objective"] == objective]
        return [row for row in selected if query is None or row["query"] == query]

    def mean_error(rows_of_plan: Iterable[Row], predicted: str) -> float:
        """Return the mean difference of the predicted value and the accuracy."""
        return fmean(abs(row[predicted] - row["accuracy"]) for row in rows_of_plan)

    def mean(rows_of_plan: Sequence[Row], figure: str) -> float:
        return fmean(row[figure] for row in rows_of_plan)

    def of_each(figure: str) -> str:
        return ", ".join(f"{name} {mean(chosen(planner=name), figure):.3f}" for name in ("DP", "structure-aware", "greedy", "ours"))

    one_of, one_ic = mean_error(chosen("Q1"), "fidelity"), mean_error(chosen("Q1", objective="IC"), "completeness")
    two_of, two_ic = mean_error(chosen("Q2"), "fidelity"), mean_error(chosen("Q2", objective="IC"), "completeness")
    behind = {f: mean(chosen(planner="DP"), f) - mean(chosen(), f) for f in ("fidelity", "accuracy")}
    least = {f: min(mean(chosen(planner=n), f) for n in ("DP", "structure-aware", "ours")) for f in ("fidelity", "accuracy")}
    greedy = {f: mean(chosen(planner="greedy"), f) for f in ("fidelity", "accuracy")}
    ours = {f: mean(chosen(planner="ours"), f) for f in ("fidelity", "accuracy")}
    return [
        Finding(
            "Figure 12 (a): for top pages both OF and IC predict the accuracy",
            "good predictions",
            f"off by {one_of:.3f} (OF) and {one_ic:.3f} (IC) on average",
            max(one_of, one_ic) <= CLOSE,
        ),
        Finding(
            "Figure 12 (b): for traffic incidents OF predicts the accuracy",
            "generally quite close",
            f"off by {two_of:.3f} on average",
            two_of <= CLOSE,
        ),
        Finding(
            "Figure 12 (b): for traffic incidents IC does not",
            "higher IC without higher accuracy: it does not see that inputs are joined",
            f"off by {two_ic:.3f} on average",
            two_ic > max(CLOSE, two_of),
        ),
        Finding(
            "Figure 13: structure-aware is close to DP",
            "quite close, in OF and in accuracy",
            f"behind by {behind['fidelity']:.3f} in OF and {behind['accuracy']:.3f} in accuracy on average",
            max(behind.values()) <= CLOSE,
        ),
        Finding(
            "Figure 13: greedy is the worst",
            "worst for both queries",
            f"OF: {of_each('fidelity')}; accuracy: {of_each('accuracy')}",
            all(greedy[f] < least[f] for f in greedy),
        ),
        Finding(
            "Figure 13: our planner's plans are worth as much as DP's",
            "(not in the paper)",
            f"OF {ours['fidelity']:.3f} against {mean(chosen(planner='DP'), 'fidelity'):.3f}, "
            f"accuracy {ours['accuracy']:.3f} against {mean(chosen(planner='DP'), 'accuracy'):.3f}",
            ours["fidelity"] >= mean(chosen(planner="DP"), "fidelity") - 1e-9
            and ours["accuracy"] >= mean(chosen(planner="DP"), "accuracy") - CLOSE,
        ),
    ]
