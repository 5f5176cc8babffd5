"""Writers for sinks: the token that a writer may take, how a writer is called, and a writer that prints."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.errors import HoldfastError

WriteKind = Literal["first", "final"]

MAX_ARGUMENTS = 3


class FencedError(HoldfastError):
    """The target refuses a write, because another replica of the sink has taken over."""


@dataclass(frozen=True)
class WriteToken:
    """Orders the writes of one epoch, so that a target can refuse a write that comes too late.

    `claim` ascends with every claim on the epoch: a replica that takes over from another one has a larger number than it, and the
    correction (`kind` "final") has a larger number than the first output (`kind` "first"). A target that remembers the largest
    number it has seen of each epoch, and refuses smaller ones, therefore keeps the newest rows. An equal number is the same write
    again. `run` identifies the log that counts the claims; numbers of different runs cannot be compared.
    """

    run: str
    epoch: int
    kind: WriteKind
    claim: int


@dataclass(frozen=True)
class BoundWriter:
    """Calls a writer with as many of rows, epoch and quality as it takes, in this order, and passes the token by name.

    A writer with the attribute `takes_arrow` receives the rows as an Arrow table, others as a DataFrame.
    """

    function: Callable[..., Any]
    arguments: int = MAX_ARGUMENTS
    takes_token: bool = False
    takes_arrow: bool = False

    def __call__(self, rows: Any, epoch: int, quality: str, *, token: WriteToken) -> None:
        by_name = {"token": token} if self.takes_token else {}
        self.function(*(rows, epoch, quality)[: self.arguments], **by_name)


def bind_writer(writer: Callable[..., Any]) -> BoundWriter:
    """Return a writer with the arguments that it takes. Raises ValueError, which names its parameters, if it cannot be called."""
    try:
        parameters = inspect.signature(writer).parameters
    except ValueError:  # some built-in functions have no signature
        return BoundWriter(writer)
    takes_token = "token" in parameters and parameters["token"].kind is not inspect.Parameter.POSITIONAL_ONLY
    others = [p for p in parameters.values() if not (takes_token and p.name == "token")]
    return BoundWriter(writer, _count_positional(others), takes_token, bool(getattr(writer, "takes_arrow", False)))


def _count_positional(parameters: list[inspect.Parameter]) -> int:
    """Return how many of rows, epoch and quality a writer takes."""
    keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if keyword_only:
        raise ValueError(f"takes '{keyword_only[0]}' by name, but only 'token' is passed by name")
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    count = MAX_ARGUMENTS if takes_any else min(MAX_ARGUMENTS, len(positional))
    if required > MAX_ARGUMENTS or count < 2:
        names = ", ".join(p.name for p in positional) or "nothing"
        raise ValueError(f"takes {names}")
    return count


def console(rows: Any, epoch: int, quality: str) -> None:
    """Print at most 20 rows of an epoch. On a cluster they go to the log of the PE host that runs the sink."""
    print(f"epoch {epoch}, {quality}, {rows.count()} rows", flush=True)
    rows.show(20, truncate=False)
