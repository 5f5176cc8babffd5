"""How far long work is, told to whoever watches."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def silent(what: str, done: int, of: int) -> None:
    """Progress that nobody watches."""


class Steps:
    """Work of a known number of steps, of which each is told when it is done.

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
        """One step is done."""
        self._done += 1
        self._progress(self._what, self._done, self._of)

    def end(self) -> None:
        """Nothing is left to do, whether or not every step was needed."""
        if self._done < self._of:
            self._done = self._of
            self._progress(self._what, self._of, self._of)
