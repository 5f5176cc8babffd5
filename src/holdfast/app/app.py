"""The class `App`, with which a user defines sources, operators and sinks.

Its methods only record frozen definitions with their file and line. `App.graph()` checks them and reports all errors together.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.app.definition import Node, Operator, Origin, Score, Sink, Source
from holdfast.app.graph import Graph
from holdfast.app.keep import Keep, StateTable
from holdfast.app.validation import find_errors
from holdfast.documents.document import check_document
from holdfast.documents.partitioning import Partitioning
from holdfast.documents.source_inputs import DeltaInput, FilesInput, IcebergInput, KafkaInput, SourceInput
from holdfast.errors import ApplicationError, DocumentError, did_you_mean

Stream = str | Source | Operator

INPUT_KINDS: Mapping[str, type[SourceInput]] = {
    "kafka": KafkaInput,
    "files": FilesInput,
    "delta": DeltaInput,
    "iceberg": IcebergInput,
}


class App:
    """An application under definition.

    >>> app = App("shop")
    >>> orders = app.source("orders", "seq long, customer string, amount double")
    >>> @app.operator(inputs=orders)
    ... def large(orders):
    ...     return orders.where("amount > 100")
    >>> app.sink("alerts", large)
    >>> app.graph().order
    ('orders', 'large', 'alerts')
    """

    def __init__(self, name: str, *, epoch_s: float = 1.0) -> None:
        self.name, self.epoch_s = name, epoch_s
        self.origin = _caller()
        self._nodes: list[Node] = []
        self._scores: list[Score] = []
        self._input_errors: list[str] = []

    def source(
        self,
        name: str,
        schema: str,
        *,
        key: str | tuple[str, ...] = (),
        parallelism: int = 1,
        reader: Callable[..., Any] | None = None,
        kafka: Mapping[str, Any] | None = None,
        files: Mapping[str, Any] | None = None,
        delta: Mapping[str, Any] | None = None,
        iceberg: Mapping[str, Any] | None = None,
    ) -> Source:
        """Declare a source and return it. Operators and sinks take it as an input.

        `kafka`, `files`, `delta` and `iceberg` name data that can be read again, with the options of `KafkaInput`, `FilesInput`,
        `DeltaInput` or `IcebergInput`. Such a source can have several replicas, and its tasks divide the partitions or files
        among them.

        `reader` is for everything else: a function from a SparkSession to a streaming DataFrame (`spark.readStream...`).

        The rows have the columns of the schema without `seq`: holdfast numbers them in the order of arrival. They may lack `time`;
        holdfast then adds the time of arrival.
        """
        origin = _caller()
        inputs = {"kafka": kafka, "files": files, "delta": delta, "iceberg": iceberg}
        options = {kind: value for kind, value in inputs.items() if value is not None}
        source_input = self._read_input(name, options, origin)
        if len(options) + (reader is not None) > 1:
            names = ", ".join([*options, *(["reader"] if reader is not None else [])])
            self._input_errors.append(f"source '{name}' ({origin}) must have one input, but it has several: {names}")
        source = Source(name, schema, key=_names(key), parallelism=parallelism, reader=reader, input=source_input, origin=origin)
        self._nodes.append(source)
        return source

    def operator(
        self,
        *,
        inputs: Stream | Iterable[Stream],
        keep: Keep | StateTable | Mapping[Any, Keep] | None = None,
        correlated: bool = False,
        key: str | tuple[str, ...] = (),
        parallelism: int = 1,
        partitioning: Partitioning | Mapping[Any, Partitioning] | None = None,
        pe: str | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Operator]:
        """Return a decorator that records a function as an operator. The decorated name is then the operator.

        The function takes one DataFrame per input, in order, and the state table if `keep` is one. It returns a DataFrame, and the
        new state table if it took one. `keep` is one rule for all inputs, or a mapping from an input to its rule. `correlated`
        means that an output needs rows of every input (a join). Operators with the same `pe` are fused into one PE.
        """
        names = tuple(_name(stream) for stream in ([inputs] if isinstance(inputs, Stream) else inputs))
        origin = _caller()

        def record(function: Callable[..., Any]) -> Operator:
            operator = Operator(
                name=name or str(getattr(function, "__name__", type(function).__name__)),
                inputs=names,
                function=function,
                keep=_per_input(None if isinstance(keep, StateTable) else keep, names),
                state=keep if isinstance(keep, StateTable) else None,
                correlated=correlated,
                key=_names(key),
                parallelism=parallelism,
                partitioning=_per_input(partitioning, names),
                pe=pe,
                origin=_origin_of(function, origin),
            )
            self._nodes.append(operator)
            return operator

        return record

    def query(
        self,
        *,
        inputs: Stream | Iterable[Stream],
        output_mode: str = "append",
        settings: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Operator]:
        """Return a decorator that records a function as a Structured Streaming query. The decorated name is then the operator.

        The function takes one streaming DataFrame per input, in order, and returns one. The inputs lack the columns `seq` and
        `epoch`, and holdfast adds both to the result. `output_mode` is 'append', 'update' or 'complete', as for `writeStream`.
        `settings` are Spark settings of the query, such as `spark.sql.shuffle.partitions` (default 2).
        """
        names = tuple(_name(stream) for stream in ([inputs] if isinstance(inputs, Stream) else inputs))
        origin = _caller()

        def record(function: Callable[..., Any]) -> Operator:
            operator = Operator(
                name=name or str(getattr(function, "__name__", type(function).__name__)),
                inputs=names,
                function=function,
                output_mode=output_mode,
                settings=dict(settings or {}),
                origin=_origin_of(function, origin),
            )
            self._nodes.append(operator)
            return operator

        return record

    def sink(self, name: str, input: Stream, *, writer: Callable[..., Any] | None = None) -> None:
        """Declare that a stream leaves the application here.

        `writer` is called with (rows as a DataFrame, epoch, quality) for the first output of an epoch, and again with quality
        'exact' if that was not exact. After a failure it can be called again for the same epoch. It must then replace its
        output. A parameter called `token` receives a `WriteToken`, with which a target can refuse a delayed write. See
        `SqlWriter` for database tables.
        """
        self._nodes.append(Sink(name, _name(input), writer=writer, origin=_caller()))

    def score(self, sink: str, expression: str, *, affected: int | None = None) -> None:
        """Declare the score of a sink's output: an aggregate over its rows, such as 'sum(gain)', 'avg(error)', 'count(*)'.

        `affected` is the number of source tuples, counted from the fault, over which the score is compared. By default it
        covers the outputs that the longest outage can change.
        """
        self._scores.append(Score(sink, expression, affected=affected, origin=_caller()))

    def _read_input(self, name: str, options: Mapping[str, Mapping[str, Any]], origin: Origin) -> SourceInput | None:
        """Return the checked options of a source's input. Keep the errors for `graph`, which reports all errors together."""
        for kind, settings in options.items():
            try:
                return check_document(dict(settings), INPUT_KINDS[kind], thing=f"'{kind}' of source '{name}' ({origin})")
            except DocumentError as error:
                self._input_errors += [f"{error.thing}: {each}" for each in error.errors]
        return None

    @property
    def scores(self) -> tuple[Score, ...]:
        return tuple(self._scores)

    def graph(self) -> Graph:
        """Return the checked graph of this application. Raises ApplicationError with all errors."""
        errors = find_errors(self._nodes) + self._input_errors
        sinks = {node.name for node in self._nodes if isinstance(node, Sink)}
        errors += [
            f"the score at {score.origin} is of sink '{score.sink}', which does not exist; sinks are: {_list(sinks)}"
            f"{did_you_mean(score.sink, sinks)}"
            for score in self._scores
            if score.sink not in sinks
        ]
        errors += [
            f"the score at {score.origin} has affected={score.affected!r}; it must be a number of source tuples, "
            "a whole number of at least 1, or left out"
            for score in self._scores
            if score.affected is not None and (type(score.affected) is not int or score.affected < 1)
        ]
        if not isinstance(self.epoch_s, int | float) or not self.epoch_s > 0:
            errors.append(f"epoch_s must be more than 0 seconds, got {self.epoch_s!r}")
        if errors:
            raise ApplicationError(f"application '{self.name}' ({self.origin})", errors)
        return Graph.of(self._nodes)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _name(stream: Stream) -> str:
    return stream if isinstance(stream, str) else stream.name


def _names(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _per_input(rule: Any, inputs: tuple[str, ...]) -> dict[str, Any]:
    if rule is None:
        return {}
    if isinstance(rule, Mapping):
        return {_name(stream): value for stream, value in rule.items()}
    return dict.fromkeys(inputs, rule)


def _origin_of(function: Callable[..., Any], call: Origin) -> Origin:
    """Return where a function is defined, if that is in the file of the call that made it an operator; otherwise that call."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Origin(call.file, code.co_firstlineno) if code and code.co_filename == call.file else call


def _caller() -> Origin:
    """Return where the user's code called a method of App: two frames up."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame and frame.f_back else None
    return Origin(caller.f_code.co_filename, caller.f_lineno) if caller else Origin("?", 0)
