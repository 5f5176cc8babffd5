"""One tree of errors. The text is written where the error is raised; it names the thing, what was wanted, what was got
and what to do. The command line prints it and exits with 2; a user never sees a traceback for a mistake of theirs."""

from collections.abc import Sequence


class HoldfastError(Exception):
    """A mistake that the user can mend."""


class CompoundError(HoldfastError):
    """Everything found wrong with one thing, at once.

    >>> print(CompoundError("application 'shop'", ["no sink", "no source"]))
    application 'shop' has 2 errors:
      - no sink
      - no source
    """

    def __init__(self, thing: str, errors: Sequence[str]) -> None:
        self.thing, self.errors = thing, tuple(errors)
        if len(self.errors) == 1:
            super().__init__(f"{thing}: {self.errors[0]}")
        else:
            lines = "".join(f"\n  - {error}" for error in self.errors)
            super().__init__(f"{thing} has {len(self.errors)} errors:{lines}")


class ApplicationError(CompoundError):
    """The application as written cannot run."""


class DocumentError(CompoundError):
    """A document (descriptor, topology, plan, schedule) does not say what it must."""


class TraceError(HoldfastError):
    """A trace is missing, corrupt, or not what the application reads."""


class LogError(HoldfastError):
    """The epoch log cannot be read or written just now: its disk is full, or its store is away."""


class TrimmedError(HoldfastError):
    """What was to be read has been trimmed: whoever reads is behind everyone who needs it, and goes on from a newer checkpoint."""


class OperatorError(HoldfastError):
    """An operator's own function failed or returned something that is no stream."""


class MachineError(HoldfastError):
    """This machine lacks something that the command needs."""
