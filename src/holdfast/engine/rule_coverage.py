"""Find the keep rules that a sample does not exercise: with so few epochs or rows, a rule that is too short would go unnoticed."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.app import Graph, Keep, LastEpochs, LastRows
from holdfast.engine.epochs import Span
from holdfast.engine.kept_rows import is_needed


def unexercised_rules(graph: Graph, streams: Mapping[str, pa.Table], spans: Sequence[Span]) -> dict[str, Keep]:
    """Return the keep rules under which no row is dropped that a longer rule would still give to the operator, by a sentence each.

    `spans` are the runs into which the epochs are divided; rows are dropped between them.
    """
    return {
        f"{rule} of operator '{operator.name}' is not exercised: {_missing(rule, stream)}": rule
        for operator in graph.operators
        for stream, rule in operator.keep.items()
        if not is_exercised(rule, streams[stream], spans)
    }


def is_exercised(rule: Keep, rows: pa.Table, spans: Sequence[Span]) -> bool:
    """Return whether the rule drops rows of a stream that a longer rule would still give to the operator."""
    return any(_drops(rule, before, after, span) for before, after, span in _divisions(rows, spans))


def _divisions(rows: pa.Table, spans: Sequence[Span]) -> Iterator[tuple[pa.Table, pa.Table, Span]]:
    """Yield the rows before and after the end of each span but the last."""
    for span in spans[:-1]:
        past = pc.less_equal(rows["epoch"], span.last) if "epoch" in rows.column_names else pc.less_equal(rows["seq"], span.until)
        yield rows.filter(past), rows.filter(pc.invert(past)), span


def _drops(rule: Keep, before: pa.Table, after: pa.Table, span: Span) -> bool:
    dropped = before.filter(pc.invert(is_needed(before, rule, span)))
    if isinstance(rule, LastRows):
        return bool(dropped.num_rows and after.num_rows and (not rule.by or _values(dropped, rule.by) & _values(after, rule.by)))
    recent = pc.greater_equal(dropped["epoch"], span.last - 2 * rule.n)
    soon = pc.less_equal(after["epoch"], span.last + rule.n + 1)
    return bool(pc.any(recent).as_py() and pc.any(soon).as_py())


def _values(rows: pa.Table, by: tuple[str, ...]) -> set[tuple[str, ...]]:
    return set(zip(*(map(repr, rows[name].to_pylist()) for name in by), strict=True))


def _missing(rule: Keep, stream: str) -> str:
    if isinstance(rule, LastEpochs):
        return f"the sample needs rows of '{stream}' in more than {rule.n + 1} epochs in a row"
    key = f"a value of {', '.join(rule.by)}" if rule.by else "the sample"
    return f"{key} needs more than {rule.n} rows of '{stream}' and later ones"
