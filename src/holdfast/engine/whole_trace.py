"""Build one Spark plan that processes a whole trace."""

from collections.abc import Callable, Collection, Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.app import Graph, Operator
from holdfast.engine.operator_call import call_operator
from holdfast.engine.query.query_replay import replay_query
from holdfast.engine.schema import quoted

Injection = Callable[[DataFrame], DataFrame]
"""A function that applies a fault to a stream on one edge of the graph."""


def build_whole_trace(
    graph: Graph,
    inputs: Mapping[str, DataFrame],
    *,
    part: Collection[str] | None = None,
    epochs: tuple[int, int] | None = None,
    injections: Mapping[tuple[str, str], Injection] | None = None,
) -> dict[str, DataFrame]:
    """Return every stream of the application as a DataFrame over all rows of its sources. Only queries are computed yet.

    With `part`, only some operators run, and `inputs` are the streams that the part reads. `epochs` are the first and last epoch
    of the sources; output of windowed operators for other epochs is dropped. A stream that several nodes read is computed once.
    `injections` changes the stream on an edge (from, to).
    """
    frames = {name: _shared(graph, name, frame) for name, frame in inputs.items()}
    copies = Copies(inputs)
    for operator in graph.operators:
        if operator.name in inputs or (part is not None and operator.name not in part):
            continue
        arriving = [_inject(frames[stream], injections, (stream, operator.name)) for stream in operator.inputs]
        frame = copies.limit(operator, _whole(operator, arriving, epochs))
        frames[operator.name] = _shared(graph, operator.name, frame)
    return frames


class Copies:
    """Counts how often the inputs occur in each stream's plan, and keeps the number small.

    It doubles each time that branches split and join again.
    """

    MOST = 8

    def __init__(self, inputs: Iterable[str]) -> None:
        self._of = dict.fromkeys(inputs, 1)

    def limit(self, operator: Operator, frame: DataFrame) -> DataFrame:
        """Return the operator's output, checkpointed if its plan contains the inputs too often.

        Spark then stores the rows in memory or on disk when they are first computed, until no plan reads them any more.
        """
        count = sum(self._of[stream] for stream in operator.inputs)
        self._of[operator.name] = count if count <= self.MOST else 1
        return frame if count <= self.MOST else frame.localCheckpoint(eager=False)


def _shared(graph: Graph, name: str, frame: DataFrame) -> DataFrame:
    return share(frame, sharing_key(graph, name, frame)) if len(graph.successors(name)) > 1 else frame


def _inject(frame: DataFrame, injections: Mapping[tuple[str, str], Injection] | None, edge: tuple[str, str]) -> DataFrame:
    change = (injections or {}).get(edge)
    return change(frame) if change else frame


def _whole(operator: Operator, inputs: list[DataFrame], epochs: tuple[int, int] | None) -> DataFrame:
    if operator.is_query:
        return replay_query(operator, inputs, epochs)
    state = inputs[0].sparkSession.createDataFrame([], operator.state.schema) if operator.state else None
    output, _ = call_operator(operator, inputs, state)
    if operator.windowed and epochs is not None:
        output = output.where(F.col("epoch").between(*epochs))
    return output


def sharing_key(graph: Graph, stream: str, frame: DataFrame) -> tuple[str, ...]:
    """Return the columns to partition a shared stream by: the key of the nearest keyed reader downstream."""
    columns = set(frame.columns)
    for name in graph.order:
        node = graph.nodes[name]
        if not isinstance(node, Operator) or name not in graph.downstream(stream):
            continue
        rules = [rule.by for rule in node.keep.values() if hasattr(rule, "by")]
        for by in [*rules, node.state.by if node.state else (), node.key]:
            if by and columns.issuperset(by):
                return by
    return ("seq",)


def share(frame: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return the same rows, partitioned by key and computed once even if several plans read them.

    Spark computes an exchange once if it occurs twice in a plan. But if it pushes the readers' filters and selections below the
    exchange, there are two different exchanges. A filter that is always true keeps them above. The optimiser cannot remove it,
    because it contains a nondeterministic counter, and cannot prune columns below it, because it names all of them. The columns
    get new identities above the exchange. Otherwise a union, which keeps those of its first branch, would let the optimiser
    remove aliases below the exchange in the other branches only.
    """
    unknown = " and ".join(f"{quoted(name)} is null" for name in frame.columns)
    shared = frame.repartition(*map(quoted, key)).where(f"monotonically_increasing_id() >= 0 or ({unknown})")
    return shared.select(*(F.col(quoted(name)).alias(name) for name in frame.columns))
