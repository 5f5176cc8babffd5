"""Vary the order in which tuples of several inputs reach an operator (DEBS'11, section 3: non-determinism).

An operator with several inputs and kept rows sees their tuples in an order that differs from run to run. Each input is modelled
as an ordered channel with a varying, bounded delay. The delays are pseudo-random functions of (seed, operator, stream, seq).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.app import Graph, LastRows, Operator
from holdfast.assess.slots import Code, NoSlots, per_slot
from holdfast.errors import HoldfastError

BITS, MIDDLE = 9, 256
"""A jittered seq carries its displacement in its last bits, so that the operator's output can be restored."""
FURTHEST_JITTER = MIDDLE // 2 - 1


def order_sensitive(operator: Operator) -> bool:
    """Return whether an operator's output can depend on the arrival order: it has several inputs and keeps the last rows or a state
    table. Output that is computed from whole epochs does not depend on the order within them."""
    remembers = operator.state is not None or any(isinstance(rule, LastRows) for rule in operator.keep.values())
    return len(operator.inputs) > 1 and remembers


def jittered(graph: Graph, *, bound: int, seeds: Sequence[int], code: Code | None = None) -> Graph:
    """Return the application with varying delays of at most `bound` seqs; one seed per slot."""
    if not 0 <= bound <= FURTHEST_JITTER:
        raise HoldfastError(f"arrival order can be jittered by 0 to {FURTHEST_JITTER} tuples, got {bound}")
    if bound == 0:
        return graph
    nodes = {
        name: _wrapped(node, bound, list(seeds), code or NoSlots())
        if isinstance(node, Operator) and order_sensitive(node)
        else node
        for name, node in graph.nodes.items()
    }
    return Graph(nodes, graph.order)


def _wrapped(operator: Operator, bound: int, seeds: list[int], code: Code) -> Operator:
    """Return the operator reading displaced seqs and writing the original ones."""

    def function(*inputs: DataFrame) -> Any:
        streams = [
            frame.withColumn("seq", _displaced(f"{operator.name}<{stream}", bound, seeds, code))
            for stream, frame in zip(operator.inputs, inputs, strict=False)
        ]
        result = operator.function(*streams, *inputs[len(operator.inputs) :])
        if isinstance(result, tuple):
            return (result[0].withColumn("seq", _restored(code)), *result[1:])
        return result.withColumn("seq", _restored(code))

    return replace(operator, function=_with_signature(function, operator.function))


def _displaced(channel: str, bound: int, seeds: list[int], code: Code) -> Column:
    """Return the seq plus a delay. The delay is drawn every `4 * bound` seqs and interpolated linearly in between. It never falls
    faster than seqs rise, so a channel keeps its order."""
    seq = F.col("seq")
    original, seed = code.seq(seq), per_slot(seeds, code.slot(seq))
    length = 4 * bound
    knot = F.floor(original / F.lit(length)).cast("long")
    previous, following = _drawn(channel, bound, seed, knot), _drawn(channel, bound, seed, knot + 1)
    delay = previous + F.floor((following - previous) * F.pmod(original, F.lit(length)) / F.lit(length)).cast("long")
    return F.shiftleft(seq + delay * F.lit(code.unit), BITS) + (F.lit(MIDDLE) - delay)


def _drawn(channel: str, bound: int, seed: Column, knot: Column) -> Column:
    return F.pmod(F.xxhash64(F.lit(channel), seed, knot), F.lit(2 * bound + 1)) - F.lit(bound)


def _restored(code: Code) -> Column:
    delay = F.lit(MIDDLE) - F.col("seq").bitwiseAND(F.lit((1 << BITS) - 1))
    return F.shiftright(F.col("seq"), BITS) - delay * F.lit(code.unit)


def _with_signature(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    function.__wrapped__ = original  # type: ignore[attr-defined]  # errors then point at the user's own lines
    return function
