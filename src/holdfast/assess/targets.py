"""Which operators to inject into, and whose behaviour the others share (DEBS'11, section 4.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.app import Graph, Operator, Sink, Source
from holdfast.documents.fault import Divergence, Side
from holdfast.errors import HoldfastError

Target = tuple[str, ...]
"""One operator or source, or several that fail together."""
AFTER = "which feeds it alone, while it keeps nothing itself"


@dataclass(frozen=True)
class Choice:
    """Whether an operator is a target. `why` are the rules that chose it; where none did, it behaves like `like`."""

    name: str
    why: tuple[str, ...]
    like: str | None = None
    alike: str = "which feeds it alone and keeps nothing"

    @property
    def chosen(self) -> bool:
        return bool(self.why)

    def __str__(self) -> str:
        if self.chosen:
            return f"{self.name}: a target, because {'; '.join(self.why)}"
        return f"{self.name}: behaves like {self.like}, {self.alike}"


def choose_targets(graph: Graph, *, kind: str = "loss", side: Side = "input") -> tuple[Choice, ...]:
    """A verdict on every source and operator, breadth first from the sources.

    Sources are targets. An operator is one if a stream it reads has other readers too, if it reads several streams, or if what
    feeds it is stateful; otherwise losing its input is losing the input of what feeds it. Where outputs are lost, the third rule
    is that the operator itself is stateful: otherwise losing its output is losing the output of what feeds it. A divergence is
    not the same before and after an operator that computes with its values, so every operator that others feed is a target.
    """
    choices: dict[str, Choice] = {
        source.name: Choice(source.name, ("it is a source: its loss is the loss of the feed",)) for source in graph.sources
    }
    for name in _breadth_first(graph):
        node = graph.nodes[name]
        if isinstance(node, Operator):
            why = _rules(graph, node, kind, side)
            like = None if why else _leader(choices, node.inputs[0])
            choices[name] = Choice(name, why, like) if side == "input" else Choice(name, why, like, AFTER)
    return tuple(choices.values())


def group_target(graph: Graph, names: Iterable[str]) -> Target:
    """Operators and sources that fail together, in topological order; HoldfastError for a name that is neither.

    A name that is a PE of several operators stands for them all.
    """
    return group_targets(graph, [names])[0]


def group_targets(graph: Graph, groups: Iterable[Iterable[str]]) -> list[Target]:
    """The target of each group; HoldfastError with every name in any of them that is none."""
    listed = [list(group) for group in groups]
    members = {name: _members(graph, name) for group in listed for name in group}
    unknown = [f"'{name}'" for name, found in members.items() if not found]
    if unknown:
        known = ", ".join([*(s.name for s in graph.sources), *(o.name for o in graph.operators)])
        who = f"target {unknown[0]} is" if len(unknown) == 1 else f"targets {', '.join(unknown)} are"
        raise HoldfastError(f"{who} no source, operator or PE of this application; they are: {known}")
    if not all(listed):
        raise HoldfastError("a target needs at least one operator or source")
    wanted = [{member for name in group for member in members[name]} for group in listed]
    return [tuple(name for name in graph.order if name in group) for group in wanted]


def _members(graph: Graph, name: str) -> tuple[str, ...]:
    """The operators and sources that a name stands for; none for a sink or what does not exist."""
    if name in graph.pes and name not in graph.nodes:
        return tuple(graph.pes[name])
    return (name,) if name in graph.nodes and not isinstance(graph.nodes[name], Sink) else ()


def position(graph: Graph, name: str) -> int:
    """How far a node is from the sources: the longest way, in edges. What criticality by position would go by."""
    before = graph.predecessors(name)
    return 1 + max(position(graph, stream) for stream in before) if before else 0


def target_name(target: Sequence[str]) -> str:
    """How a target is called.

    >>> target_name(("trade_filter", "vwap"))
    'trade_filter+vwap'
    """
    return "+".join(target)


def _rules(graph: Graph, operator: Operator, kind: str, side: Side) -> tuple[str, ...]:
    why = []
    for stream in operator.inputs:
        others = [name for name in graph.successors(stream) if name != operator.name]
        if others:
            why.append(f"{stream} also feeds {', '.join(others)}")
    if len(operator.inputs) > 1:
        why.append(f"it reads {len(operator.inputs)} streams")
    if side == "input":
        why += [f"{stream}, which feeds it, is stateful" for stream in operator.inputs if _stateful(graph, stream)]
    elif operator.stateful:
        why.append("it is stateful, and goes on to remember while its output is struck")
    fed = [stream for stream in operator.inputs if side == "output" or isinstance(graph.nodes[stream], Operator)]
    if kind == Divergence.kind and not why and fed:
        why.append(f"values that differ {'before' if side == 'input' else 'after'} {fed[0]} may differ otherwise here")
    return tuple(why)


def _stateful(graph: Graph, stream: str) -> bool:
    node = graph.nodes[stream]
    return isinstance(node, Operator) and node.stateful


def _leader(choices: dict[str, Choice], stream: str) -> str:
    choice = choices[stream]
    return choice.name if choice.chosen else choice.like or stream


def _breadth_first(graph: Graph) -> list[str]:
    """Sources first, then what they feed, and so on; a node once everything it reads has been seen."""
    level = [source.name for source in graph.sources if isinstance(source, Source)]
    seen, found = set(level), list(level)
    while level:
        following = []
        for name in level:
            for reader in graph.successors(name):
                if reader not in seen and seen.issuperset(graph.predecessors(reader)):
                    seen.add(reader)
                    following.append(reader)
        found += following
        level = following
    return found
