"""Progress callbacks of long work."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with a description of the work, the number of steps done, and the total."""


def silent(what: str, done: int, of: int) -> None:
    """Ignore progress."""


class Steps:
    """Reports progress of work with a known number of steps.

    >>> steps = Steps(lambda what, done, of: print(f"{what}: {done} of {of}"), "reading", of=3)
    reading: 0 of 3
    >>> steps.done()
    reading: 1 of 3
    >>> steps.end()
    reading: 3 of 3
    """

    def __init__(self, progress: Progress, what: str, *, of: int) -> None:
        self._progress, self._what, self._of, self._done = progress, what, of, 0
        progress(what, 0, of)

    def done(self) -> None:
        """Report one more step as done."""
        self._done += 1
        self._progress(self._what, self._done, self._of)

    def end(self) -> None:
        """Report all steps as done, even if some were not needed."""
        if self._done < self._of:
            self._done = self._of
            self._progress(self._what, self._of, self._of)
