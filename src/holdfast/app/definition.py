"""The definitions of an application: frozen values with the file and line where they were defined."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.app.keep import Keep, LastEpochs, StateTable
from holdfast.documents.partitioning import Partitioning
from holdfast.documents.source_inputs import SourceInput


@dataclass(frozen=True)
class Origin:
    """The file and line of a definition."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True)
class Source:
    """A stream that enters the application. Its rows have the columns of `schema` (Spark DDL), among them `seq long`.

    A running application reads its rows from `input`, data that can be read again, or from the streaming DataFrame that `reader`
    returns for a SparkSession. A trace needs neither.
    """

    name: str
    schema: str
    key: tuple[str, ...] = ()
    parallelism: int = 1
    reader: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    input: SourceInput | None = None
    origin: Origin = Origin("?", 0)


@dataclass(frozen=True)
class Operator:
    """A function from DataFrames to a DataFrame, with its keep rules.

    With `output_mode` it is a Structured Streaming query: its function takes and returns streaming DataFrames, and Spark keeps its
    state. `settings` are Spark's settings for it.
    """

    name: str
    inputs: tuple[str, ...]
    function: Callable[..., Any] = field(compare=False, repr=False)
    keep: Mapping[str, Keep] = field(default_factory=dict, hash=False)
    state: StateTable | None = None
    correlated: bool = False
    key: tuple[str, ...] = ()
    parallelism: int = 1
    partitioning: Mapping[str, Partitioning] = field(default_factory=dict, hash=False)
    pe: str | None = None
    output_mode: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    origin: Origin = Origin("?", 0)

    def __str__(self) -> str:
        return f"{'operator' if self.output_mode is None else 'query'} '{self.name}' ({self.origin})"

    @property
    def stateful(self) -> bool:
        return bool(self.keep) or self.state is not None or self.is_query

    @property
    def is_query(self) -> bool:
        return self.output_mode is not None

    @property
    def windowed(self) -> bool:
        """Whether the operator's output belongs to epochs rather than to the tuples that triggered it."""
        return self.is_query or any(isinstance(rule, LastEpochs) for rule in self.keep.values())


@dataclass(frozen=True)
class Sink:
    """Where a stream leaves the application. `writer` takes an epoch's rows; without one they become Parquet files."""

    name: str
    input: str
    writer: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    origin: Origin = Origin("?", 0)


@dataclass(frozen=True)
class Score:
    """The output score function (DEBS'11, section 3): an aggregate SQL expression over a sink's rows.

    `affected` is how many source tuples a fault affects, counted from the first lost one. None means that it is estimated.
    """

    sink: str
    expression: str
    affected: int | None = None
    origin: Origin = Origin("?", 0)


Node = Source | Operator | Sink
