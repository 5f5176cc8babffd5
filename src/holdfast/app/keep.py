"""Keep rules: which past rows an operator's future output depends on.

There are three kinds of rule. A stateless operator has none. A rule applies to one input stream, except a state table, which
belongs to the whole operator.
"""

from dataclasses import dataclass

from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class LastRows:
    """The last `n` rows of each key, in the order of `seq`. Rows that share the oldest kept seq are all kept."""

    n: int
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise HoldfastError(f"last_rows keeps at least 1 row per key, got {self.n}; leave keep out for a stateless operator")

    def __str__(self) -> str:
        return f"last_rows({self.n}, by={', '.join(self.by) or 'nothing'})"


@dataclass(frozen=True)
class LastEpochs:
    """The rows of the last `n` epochs: a sliding window of n + 1 epochs, the current one included."""

    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise HoldfastError(f"last_epochs keeps at least 1 epoch, got {self.n}; leave keep out for a stateless operator")

    def __str__(self) -> str:
        return f"last_epochs({self.n})"


@dataclass(frozen=True)
class StateTable:
    """A table that the function takes after its inputs and returns after its output, with one row per value of `by`.

    `schema` is a Spark DDL string. The table starts empty, and the function sees each input row once.
    """

    schema: str
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.schema.strip():
            raise HoldfastError("state_table needs a schema such as 'page string, views long', got an empty one")

    def __str__(self) -> str:
        return f"state_table({self.schema!r}, by={', '.join(self.by) or 'nothing'})"


Keep = LastRows | LastEpochs
"""A rule for one input stream."""


def last_rows(n: int, by: str | tuple[str, ...] | list[str] = ()) -> LastRows:
    """Keep the last n rows per key.

    >>> str(last_rows(4, by="ticker"))
    'last_rows(4, by=ticker)'
    """
    return LastRows(n, _columns(by))


def last_epochs(n: int) -> LastEpochs:
    """Keep the last n epochs; the function groups by `epoch`.

    >>> str(last_epochs(29))
    'last_epochs(29)'
    """
    return LastEpochs(n)


def state_table(schema: str, by: str | tuple[str, ...] | list[str] = ()) -> StateTable:
    """Keep a table that the function takes and returns, for state that is not rows: totals, counters, sketches.

    >>> str(state_table("page string, views long", by="page"))
    "state_table('page string, views long', by=page)"
    """
    return StateTable(schema, _columns(by))


def _columns(by: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)
