"""Output score functions: a number that measures a stretch of output (DEBS'11, section 3).

A score is an aggregate SQL expression over a sink's rows. Sums, counts and averages are additive: they are computed from parts
that add up over sections. For any other aggregate, the score of several sections is the mean of the sections' scores.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from holdfast.app import App
from holdfast.errors import HoldfastError

Floats = npt.NDArray[np.float64]
Combination = Literal["total", "ratio", "mean"]

READY_MADE = ("sum", "mean", "count")


@dataclass(frozen=True)
class OutputScore:
    """The score of a sink, and the aggregates (parts) that it is computed from.

    `combination` is how the score of several sections follows from the parts: the sum of the part (total), the sum of the first
    part divided by the sum of the second (ratio), or the mean of the part over sections (mean).
    """

    sink: str
    expression: str
    parts: tuple[str, ...]
    combination: Combination

    @property
    def additive(self) -> bool:
        """Whether the score is computed from sums over rows."""
        return self.combination != "mean"

    def over(self, parts: Mapping[str, Floats] | Mapping[str, float]) -> float:
        """Return the score of a stretch, given the parts of its sections (or, if additive, their totals).

        >>> score_of("out", "avg(x)").over({"sum(x)": np.array([2.0, 4.0]), "count(x)": np.array([1.0, 2.0])})
        2.0
        """
        first = np.asarray(parts[self.parts[0]], np.float64)
        if self.combination == "mean":
            values = first[~np.isnan(first)]
            return float(values.mean()) if len(values) else 0.0
        total = float(first.sum())
        if self.combination == "total":
            return total
        count = float(np.asarray(parts[self.parts[1]], np.float64).sum())
        return total / count if count else 0.0

    def weight(self, parts: Mapping[str, Floats] | Mapping[str, float]) -> float:
        """Return the amount of output in a stretch: the total, the number of averaged rows, or the number of sections.

        >>> score_of("out", "avg(x)").weight({"sum(x)": np.array([2.0, 4.0]), "count(x)": np.array([1.0, 2.0])})
        3.0
        """
        last = np.asarray(parts[self.parts[-1]], np.float64)
        return float((~np.isnan(last)).sum() if self.combination == "mean" else last.sum())

    def local(self, parts: Mapping[str, Floats]) -> Floats:
        """Return the score of each section; 0 if a section has no rows to average."""
        first = parts[self.parts[0]]
        if self.combination != "ratio":
            return np.nan_to_num(first)
        count = parts[self.parts[1]]
        return np.divide(first, count, out=np.zeros_like(first), where=count != 0)


def score_of(sink: str, expression: str) -> OutputScore:
    """Return the score with this expression.

    >>> score_of("bargains", "sum(gain)").parts
    ('sum(gain)',)
    >>> score_of("bargains", "avg(gain)").parts
    ('sum(gain)', 'count(gain)')
    >>> score_of("bargains", "percentile(gain, 0.5)").combination
    'mean'
    """
    text = expression.strip()
    name, inside = _call(text)
    if name in ("sum", "count") and inside:
        return OutputScore(sink, text, (f"{name}({inside})",), "total")
    if name in ("avg", "mean") and inside:
        return OutputScore(sink, text, (f"sum({inside})", f"count({inside})"), "ratio")
    return OutputScore(sink, text, (text,), "mean")


def ready_made(app: App, kind: str, *, sink: str | None = None) -> OutputScore:
    """Return the sum, mean or count variant of the application's own score of a sink (DEBS'11, section 6.4)."""
    if kind not in READY_MADE:
        raise HoldfastError(f"there is no ready-made score '{kind}'; ready-made scores are: {', '.join(READY_MADE)}")
    own = own_scores(app, sink=sink)[0]
    if kind == "count":
        return score_of(own.sink, "count(*)")
    name, inside = _call(own.expression)
    if name not in ("sum", "avg", "mean") or not inside:
        raise HoldfastError(
            f"the score '{own.expression}' of application '{app.name}' is not a sum or average, so its {kind} variant is "
            f"unknown; give an expression, such as {'sum' if kind == 'sum' else 'avg'}(column)"
        )
    return score_of(own.sink, f"{'sum' if kind == 'sum' else 'avg'}({inside})")


def own_scores(app: App, *, sink: str | None = None) -> list[OutputScore]:
    """Return the scores that the application declares for a sink, or the number of tuples if it declares none (DEBS'11, section 7).

    The default sink is the sink of the application's first score, or its first sink.
    """
    first = app.scores[0].sink if app.scores else app.graph().sinks[0].name
    sink = sink or first
    declared = [score_of(sink, score.expression) for score in app.scores if score.sink == sink]
    return declared or [score_of(sink, "count(*)")]


def own_affected(app: App, sink: str) -> int | None:
    """Return how many source tuples a fault affects, if the application declares it for a score of this sink."""
    return next((score.affected for score in app.scores if score.sink == sink and score.affected is not None), None)


def parts_of(scores: Sequence[OutputScore]) -> tuple[str, ...]:
    """Return all distinct parts of the scores."""
    return tuple(dict.fromkeys(part for score in scores for part in score.parts))


def part_value(part: str) -> str:
    """Return the contribution of one row to an additive part, as SQL.

    >>> part_value("sum(gain * 2)"), part_value("count(gain)"), part_value("count(*)")
    ('cast(gain * 2 as double)', 'cast((gain) is not null as double)', '1D')
    """
    name, inside = _call(part)
    assert inside is not None, part
    if name == "sum":
        return f"cast({inside} as double)"
    return "1D" if inside in ("*", "1") else f"cast(({inside}) is not null as double)"


def _call(text: str) -> tuple[str, str | None]:
    """Return the function and argument of an expression that is one call with one argument and no `distinct`.

    The argument is None for any other expression.
    """
    match = re.fullmatch(r"(\w+)\s*\((.*)\)", text, re.DOTALL)
    if not match:
        return "", None
    name, inside = match[1].lower(), match[2].strip()
    depth = 0
    for letter in inside:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0 or (depth == 0 and letter == ","):
            return name, None
    plain = not re.match(r"distinct\b", inside, re.IGNORECASE)
    return name, inside if depth == 0 and plain else None
