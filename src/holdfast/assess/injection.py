"""Insert fault injection operators before a target's inputs or after its outputs (DEBS'11, section 4.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.app import Graph, Operator, Sink, Source
from holdfast.assess.slots import Code, NoSlots, per_slot
from holdfast.assess.targets import target_name
from holdfast.documents.fault import Divergence, Duplication, Loss, Reordering, Side, StreamFault

T = TypeVar("T")


@dataclass(frozen=True)
class Injection:
    """A fault, and the first and last seq that it affects."""

    fault: StreamFault
    first: int
    last: int


def injected_edges(graph: Graph, target: Iterable[str], side: Side) -> dict[str, tuple[str, ...]]:
    """Return the streams that a fault of the target changes, each with the readers that see the change.

    On the input side these are the streams that the target's operators read from outside the target, and all output of its
    sources. On the output side these are the streams that nodes outside the target read from it.
    """
    names = set(target)
    edges: dict[str, list[str]] = {}
    for stream in graph.order:
        for reader in graph.successors(stream):
            inside, reads_inside = reader in names, stream in names
            if side == "input":
                hit = isinstance(graph.nodes[stream], Source) if reads_inside else inside
            else:
                hit = reads_inside and not inside
            if hit:
                edges.setdefault(stream, []).append(reader)
    return {stream: tuple(readers) for stream, readers in edges.items()}


Edges = Mapping[str, tuple[str, ...]]
"""For each changed stream, the readers that see the change."""


def injected(graph: Graph, injections: Sequence[Injection], *, code: Code | None = None, edges: Edges | None = None) -> Graph:
    """Return the application with a fault injection operator on every edge that the injections affect.

    All injections are of one kind and on one target; there is one per slot. `edges` replaces the target's own edges.
    """
    fault = injections[0].fault
    edges = injected_edges(graph, fault.target, fault.side) if edges is None else edges
    place = "before" if fault.side == "input" else "after"
    nodes = dict(graph.nodes)
    for stream, readers in edges.items():
        name = f"{fault.kind} {place} {target_name(fault.target)} on {stream}"
        nodes[name] = Operator(
            name, (stream,), _effect(injections, code or NoSlots(), salt=f"{target_name(fault.target)}<{stream}")
        )
        for reader in readers:
            nodes[reader] = _rerouted(nodes[reader], stream, name)
    return Graph.of(list(nodes.values()))


def injected_nodes(graph: Graph, fault: StreamFault) -> list[dict[str, Any]]:
    """Return the injected graph as plain values in topological order: what every node reads, and which nodes were inserted."""
    changed = injected(graph, [Injection(fault, 0, 0)])
    return [
        {"name": name, "reads": list(changed.predecessors(name)), "injected": name not in graph.nodes, "node": _kind(changed, name)}
        for name in changed.order
    ]


def describe_injected_graph(graph: Graph, fault: StreamFault) -> str:
    """Return the injected graph as text, one line per node with its inputs; inserted nodes are marked with *."""
    lines = []
    for node in injected_nodes(graph, fault):
        mark, read = "*" if node["injected"] else " ", ", ".join(node["reads"])
        lines.append(f"{mark} {node['name']}{f'  <-  {read}' if read else ''}")
    return "\n".join(lines)


def _kind(graph: Graph, name: str) -> str:
    node = graph.nodes[name]
    return "source" if isinstance(node, Source) else "sink" if isinstance(node, Sink) else "operator"


def _rerouted(node: Operator | Sink | Source, stream: str, name: str) -> Operator | Sink | Source:
    """Return the node with its input `stream` replaced by `name`."""
    if isinstance(node, Sink):
        return replace(node, input=name)
    assert isinstance(node, Operator)
    return replace(
        node,
        inputs=tuple(name if read == stream else read for read in node.inputs),
        keep=_renamed(node.keep, stream, name),
        partitioning=_renamed(node.partitioning, stream, name),
    )


def _renamed(rules: Mapping[str, T], stream: str, name: str) -> dict[str, T]:
    return {name if read == stream else read: rule for read, rule in rules.items()}


def _effect(injections: Sequence[Injection], code: Code, *, salt: str) -> Callable[[DataFrame], DataFrame]:
    """Return the function that applies the injections to a stream."""
    effects: Mapping[type[StreamFault], Callable[[DataFrame, _Burst], DataFrame]] = {
        Loss: _lose,
        Duplication: _duplicate,
        Reordering: _reorder,
        Divergence: _diverge,
    }
    effect = effects[type(injections[0].fault)]
    return lambda stream: effect(stream, _Burst(injections, code, salt))


@dataclass(frozen=True)
class _Burst:
    """The injections as column expressions over a row's seq."""

    injections: Sequence[Injection]
    code: Code
    salt: str

    @property
    def seq(self) -> Column:
        return self.code.seq(F.col("seq"))

    @property
    def first(self) -> Column:
        return per_slot([injection.first for injection in self.injections], self.code.slot(F.col("seq")))

    @property
    def last(self) -> Column:
        return per_slot([injection.last for injection in self.injections], self.code.slot(F.col("seq")))

    @property
    def inside(self) -> Column:
        return self.seq.between(self.first, self.last)

    def drawn(self, what: str) -> Column:
        """Return a pseudo-random number in [0, 1) that depends only on seed, target and seq."""
        seed = per_slot([injection.fault.seed for injection in self.injections], self.code.slot(F.col("seq")))
        return F.pmod(F.xxhash64(F.lit(f"{self.salt}/{what}"), seed, self.seq), F.lit(1 << 30)) / F.lit(1 << 30)


def _lose(stream: DataFrame, burst: _Burst) -> DataFrame:
    return stream.where(~burst.inside)


def _duplicate(stream: DataFrame, burst: _Burst) -> DataFrame:
    fault = burst.injections[0].fault
    assert isinstance(fault, Duplication)
    twice = burst.inside & (burst.drawn("twice") < F.lit(fault.share))
    copies = F.explode(F.when(twice, F.array(F.lit(1), F.lit(2))).otherwise(F.array(F.lit(1))))
    return stream.withColumn("_copy", copies).drop("_copy")


def _reorder(stream: DataFrame, burst: _Burst) -> DataFrame:
    """Shuffle the seqs of the burst's tuples within blocks. A block is the whole burst, or one tuple longer than the distance.

    The stream keeps its set of seqs. Tuples with the same seq move together.
    """
    fault = burst.injections[0].fault
    assert isinstance(fault, Reordering) and isinstance(burst.code, NoSlots) and len(burst.injections) == 1
    place = F.row_number().over(Window.orderBy("seq")) - 1
    block = F.lit(0) if fault.distance is None else F.floor(place / F.lit(fault.distance + 1))
    seqs = stream.where(burst.inside).select("seq").distinct().withColumn("_block", block)
    drawn = F.xxhash64(F.lit(burst.salt), F.lit(fault.seed), F.col("seq"))
    order, shuffled = (Window.partitionBy("_block").orderBy(*by) for by in (["seq"], [drawn, "seq"]))
    new_seqs = seqs.select("_block", F.col("seq").alias("_moved"), F.row_number().over(order).alias("_place"))
    old_seqs = seqs.select("_block", "seq", F.row_number().over(shuffled).alias("_place"))
    moves = old_seqs.join(new_seqs, ["_block", "_place"]).select("seq", "_moved")
    columns = [F.coalesce("_moved", "seq").alias("seq") if name == "seq" else F.col(name) for name in stream.columns]
    return stream.join(F.broadcast(moves), "seq", "left").select(columns)


def fractions(schema: StructType) -> list[str]:
    """Return the columns that a divergence changes: those of fractional numbers."""
    return [field.name for field in schema if field.dataType.simpleString() in ("double", "float")]


def _diverge(stream: DataFrame, burst: _Burst) -> DataFrame:
    fault = burst.injections[0].fault
    assert isinstance(fault, Divergence)
    hit = burst.inside & (burst.drawn("which") < F.lit(fault.share))
    fractional = {name: stream.schema[name].dataType for name in fractions(stream.schema)}
    changed = {
        name: F.when(hit, F.col(name) * (1 + F.lit(fault.size) * (2 * burst.drawn(name) - 1))).otherwise(F.col(name)).cast(kind)
        for name, kind in fractional.items()
    }
    return stream.withColumns(changed) if changed else stream
