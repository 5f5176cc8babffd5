"""The errors that holdfast raises, in one tree.

The text is written where the error is raised. It names the object, what was expected, what was found and what to do. The
command line prints it and exits with code 2, so that a user's error never shows a traceback.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class HoldfastError(Exception):
    """An error that the user can fix."""


class CompoundError(HoldfastError):
    """Several errors of one document, application or request.

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
    """The application has errors and cannot run."""


class DocumentError(CompoundError):
    """A document, such as a descriptor, topology, plan or schedule, is invalid."""


class TraceError(HoldfastError):
    """A trace is missing or corrupt, or does not match the application's sources."""


class UnavailableError(HoldfastError):
    """Something that the job needs cannot be used at present. Its users wait and try again."""


class LogError(UnavailableError):
    """The epoch log cannot be read or written at present: its disk is full, or its store is unreachable."""


class ExternalError(UnavailableError):
    """What a source reads or a sink writes cannot be reached at present, for example because a broker does not answer."""


class KeptRowsRemovedError(HoldfastError):
    """The files of a replica's kept rows were removed. It must continue from the newest checkpoint."""


class TrimmedError(HoldfastError):
    """A reader is behind all known consumers, and what it wants to read was trimmed. It must continue from a newer checkpoint."""


class FencedOffError(HoldfastError):
    """The log does not take records of this job any more, because the job was canceled while it could not be reached."""


class OperatorError(HoldfastError):
    """An operator's function failed or returned something that is no stream."""


class MachineError(HoldfastError):
    """This machine lacks something that the command needs."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the known name that resembles it, or nothing.

    >>> did_you_mean("agregator", ["vwap", "aggregator"]), did_you_mean("x", ["vwap"])
    ("; did you mean 'aggregator'?", '')
    """
    known = {each.lower(): each for each in sorted(names, reverse=True)}
    similar = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean '{known[similar[0]]}'?" if similar else ""
