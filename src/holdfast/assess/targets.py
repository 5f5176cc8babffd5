"""Choose the operators to inject into, and find for each other operator one that behaves the same (DEBS'11, section 4.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.app import Graph, Operator, Sink, Source
from holdfast.documents.fault import Divergence, Side
from holdfast.errors import HoldfastError, did_you_mean

Target = tuple[str, ...]
"""One operator or source, or several that fail together."""
AFTER = "which feeds it alone, while it keeps nothing itself"


@dataclass(frozen=True)
class Choice:
    """Whether an operator is a target. `why` has the rules that chose it. If there is none, it behaves like operator `like`."""

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
    """Return the choice for every source and operator, breadth first from the sources.

    Sources are targets. An operator is a target if a stream that it reads has other readers, if it reads several streams, or if
    the operator that feeds it is stateful. Otherwise losing its input equals losing the input of the operator that feeds it. For
    faults on the output side, the third rule is that the operator itself is stateful. A divergence changes when an operator
    computes with the values, so every operator that reads another operator is a target.
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


def group_targets(graph: Graph, groups: Iterable[Iterable[str]]) -> list[Target]:
    """Return the target of each group of names, in topological order; HoldfastError with all unknown names.

    A name is that of an operator, of a source, or of a PE, which means all its operators.
    """
    groups = [list(group) for group in groups]
    members = {name: _members(graph, name) for group in groups for name in group}
    unknown = [f"'{name}'" for name, operators in members.items() if not operators]
    if unknown:
        names = [*(s.name for s in graph.sources), *(o.name for o in graph.operators)]
        similar = did_you_mean(unknown[0].strip("'"), names)
        one = f"target {unknown[0]} is not a source, operator or PE"
        text = one if len(unknown) == 1 else f"targets {', '.join(unknown)} are not sources, operators or PEs"
        raise HoldfastError(f"{text} of this application; they are: {', '.join(names)}{similar}")
    if not all(groups):
        raise HoldfastError("a target needs at least one operator or source")
    targets = [{member for name in group for member in members[name]} for group in groups]
    return [tuple(name for name in graph.order if name in target) for target in targets]


def _members(graph: Graph, name: str) -> tuple[str, ...]:
    """Return the operators and sources that a name means; none for a sink or an unknown name."""
    if name in graph.pes and name not in graph.nodes:
        return tuple(graph.pes[name])
    return (name,) if name in graph.nodes and not isinstance(graph.nodes[name], Sink) else ()


def position(graph: Graph, name: str) -> int:
    """Return the length of the longest path from a source to a node, in edges."""
    before = graph.predecessors(name)
    return 1 + max(position(graph, stream) for stream in before) if before else 0


def target_name(target: Sequence[str]) -> str:
    """Return the name of a target.

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
        why.append("it is stateful, and keeps rows while its output is lost")
    fed = [stream for stream in operator.inputs if side == "output" or isinstance(graph.nodes[stream], Operator)]
    if kind == Divergence.kind and not why and fed:
        why.append(f"values that differ {'before' if side == 'input' else 'after'} {fed[0]} may differ in another way here")
    return tuple(why)


def _stateful(graph: Graph, stream: str) -> bool:
    node = graph.nodes[stream]
    return isinstance(node, Operator) and node.stateful


def _leader(choices: dict[str, Choice], stream: str) -> str:
    choice = choices[stream]
    return choice.name if choice.chosen else choice.like or stream


def _breadth_first(graph: Graph) -> list[str]:
    """Return the nodes level by level from the sources; a node follows all nodes that it reads."""
    level = [source.name for source in graph.sources if isinstance(source, Source)]
    visited, order = set(level), list(level)
    while level:
        following = []
        for name in level:
            for reader in graph.successors(name):
                if reader not in visited and visited.issuperset(graph.predecessors(reader)):
                    visited.add(reader)
                    following.append(reader)
        order += following
        level = following
    return order
