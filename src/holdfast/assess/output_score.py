"""Output score functions: how good a stretch of output is, as a number (DEBS'11, section 3).

A score is any aggregate SQL expression over a sink's rows. Sums, counts and averages are made of parts that add up over
stretches, so that a stretch's score follows from its pieces; any other aggregate counts over several sections as the mean of
the sections' scores.
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
    """The score of a sink, with the aggregates it is made of.

    `combination` says how a score follows from its parts: the part itself, added up (total); one part over the other, both added
    up (ratio); or the part of each section, averaged (mean).
    """

    sink: str
    expression: str
    parts: tuple[str, ...]
    combination: Combination

    @property
    def additive(self) -> bool:
        """Whether the score of a whole follows from sums over its rows."""
        return self.combination != "mean"

    def over(self, parts: Mapping[str, Floats] | Mapping[str, float]) -> float:
        """The score of a stretch, from the parts of its sections (or, where additive, from their totals).

        >>> score_of("out", "avg(x)").over({"sum(x)": np.array([2.0, 4.0]), "count(x)": np.array([1.0, 2.0])})
        2.0
        """
        first = np.asarray(parts[self.parts[0]], np.float64)
        if self.combination == "mean":
            there = first[~np.isnan(first)]
            return float(there.mean()) if len(there) else 0.0
        total = float(first.sum())
        if self.combination == "total":
            return total
        count = float(np.asarray(parts[self.parts[1]], np.float64).sum())
        return total / count if count else 0.0

    def weight(self, parts: Mapping[str, Floats] | Mapping[str, float]) -> float:
        """How much output a stretch has, in what its score is made of: the total itself, the rows averaged, or the sections.

        >>> score_of("out", "avg(x)").weight({"sum(x)": np.array([2.0, 4.0]), "count(x)": np.array([1.0, 2.0])})
        3.0
        """
        last = np.asarray(parts[self.parts[-1]], np.float64)
        return float((~np.isnan(last)).sum() if self.combination == "mean" else last.sum())

    def local(self, parts: Mapping[str, Floats]) -> Floats:
        """The score of each section; 0 where a section has no rows to average."""
        first = parts[self.parts[0]]
        if self.combination != "ratio":
            return np.nan_to_num(first)
        count = parts[self.parts[1]]
        return np.divide(first, count, out=np.zeros_like(first), where=count != 0)


def score_of(sink: str, expression: str) -> OutputScore:
    """A score from its expression.

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
    """The application's own score of a sink turned into its sum, its mean, or the number of tuples (DEBS'11, section 6.4)."""
    if kind not in READY_MADE:
        raise HoldfastError(f"there is no ready-made score '{kind}'; ready-made scores are: {', '.join(READY_MADE)}")
    own = own_scores(app, sink=sink)[0]
    if kind == "count":
        return score_of(own.sink, "count(*)")
    name, inside = _call(own.expression)
    if name not in ("sum", "avg", "mean") or not inside:
        raise HoldfastError(
            f"the score '{own.expression}' of application '{app.name}' is no sum or average of something, so its {kind} is not "
            f"known; write the score out, such as {'sum' if kind == 'sum' else 'avg'}(column)"
        )
    return score_of(own.sink, f"{'sum' if kind == 'sum' else 'avg'}({inside})")


def own_scores(app: App, *, sink: str | None = None) -> list[OutputScore]:
    """The scores that the application declares of a sink, or else the number of tuples there (DEBS'11, section 7).

    The sink is that of its first score unless another is given, and its first one where it declares none.
    """
    first = app.scores[0].sink if app.scores else app.graph().sinks[0].name
    wanted = sink or first
    return [score_of(score.sink, score.expression) for score in app.scores if score.sink == wanted] or [
        score_of(wanted, "count(*)")
    ]


def own_affected(app: App, sink: str) -> int | None:
    """How many source tuples a fault affects, where the application says so of a score of this sink."""
    return next((score.affected for score in app.scores if score.sink == sink and score.affected is not None), None)


def parts_of(scores: Sequence[OutputScore]) -> tuple[str, ...]:
    """Every part that any of the scores is made of, once."""
    return tuple(dict.fromkeys(part for score in scores for part in score.parts))


def part_value(part: str) -> str:
    """What one row adds to an additive part, as SQL.

    >>> part_value("sum(gain * 2)"), part_value("count(gain)"), part_value("count(*)")
    ('cast(gain * 2 as double)', 'cast((gain) is not null as double)', '1D')
    """
    name, inside = _call(part)
    assert inside is not None, part
    if name == "sum":
        return f"cast({inside} as double)"
    return "1D" if inside in ("*", "1") else f"cast(({inside}) is not null as double)"


def _call(text: str) -> tuple[str, str | None]:
    """The function and the argument of an expression that is one call of one argument, no `distinct`; else no argument."""
    found = re.fullmatch(r"(\w+)\s*\((.*)\)", text, re.DOTALL)
    if not found:
        return "", None
    name, inside = found.group(1).lower(), found.group(2).strip()
    depth = 0
    for letter in inside:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0 or (depth == 0 and letter == ","):
            return name, None
    plain = not re.match(r"distinct\b", inside, re.IGNORECASE)
    return name, inside if depth == 0 and plain else None
