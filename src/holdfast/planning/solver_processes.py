"""Worker processes for solvers. A solver in its own process can be killed at any time, and its library's output is discarded.

A process is started on first use and reused for later calls. A process that is killed during a call is replaced.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from holdfast.errors import HoldfastError

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A module-level function and its arguments, all picklable. A race starts the call after `after_s`."""

    function: Callable[..., T]
    arguments: tuple[object, ...]
    after_s: float = 0.0


def call_in_process(function: Callable[..., T], *arguments: object) -> T:
    """Call the function in another process and return its result. An interrupt kills that process."""
    (answer,) = race([Call(function, arguments)], settles=lambda _: True, until=float("inf"))
    assert answer is not None
    return answer


def race(calls: Sequence[Call[T]], *, settles: Callable[[T], bool], until: float) -> list[T | None]:
    """Run calls in parallel and return their answers, with None for calls that were not awaited.

    Waits for the first answer for which `settles` is true, or else for all, but not beyond `until` on `time.monotonic`. If a call
    fails, its HoldfastError is raised here. A process that dies fails the race only if no other call answers.
    """
    started = time.monotonic()
    answers: list[T | None] = [None] * len(calls)
    running: dict[Connection[Any, Any], tuple[int, _Process]] = {}
    waiting = sorted(range(len(calls)), key=lambda i: (calls[i].after_s, i))
    errors: list[HoldfastError] = []
    try:
        while waiting or running:
            now = time.monotonic()
            if now >= until:
                break
            # If no other call runs, a call starts before its time.
            while waiting and (not running or started + calls[waiting[0]].after_s <= now):
                index = waiting.pop(0)
                process = _idle_or_new()
                running[process.line] = index, process
                process.line.send((calls[index].function, calls[index].arguments))
            limit = min(until, started + calls[waiting[0]].after_s if waiting else until)
            for line in wait(list(running), None if limit == float("inf") else max(0.0, limit - time.monotonic())):
                assert isinstance(line, Connection)
                index, process = running.pop(line)
                try:
                    answer: T = process.answer()
                except _DiedError as error:
                    errors.append(error)
                    continue
                _IDLE.append(process)
                answers[index] = answer
                if settles(answer):
                    return answers
    finally:
        for _, process in running.values():
            process.end()
    if errors and all(answer is None for answer in answers):
        raise errors[0]
    return answers


def warm_up(function: Callable[..., object]) -> None:
    """Ensure that a process has loaded the function's module, so that its next call starts at once."""
    call_in_process(_loaded, function)


def _loaded(function: Callable[..., object]) -> bool:
    """Return True. Unpickling the function loads its module."""
    return callable(function)


def map_in_processes(function: Callable[[A], T], tasks: Iterable[A], *, workers: int) -> Generator[T]:
    """Yield the function's result for each task, in the order of completion, from `workers` parallel processes.

    An interrupt, or closing the iterator, kills the processes that still run; their work is lost.
    """
    waiting = deque(tasks)
    running: dict[Connection[Any, Any], _Process] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                process = _idle_or_new()
                running[process.line] = process
                process.line.send((function, (waiting.popleft(),)))
            for line in wait(list(running)):
                assert isinstance(line, Connection)
                process = running.pop(line)
                answer: T = process.answer()
                _IDLE.append(process)
                yield answer
    finally:
        for process in running.values():
            process.end()


class _DiedError(HoldfastError):
    """A solver's process ended without an answer."""


class _Process:
    def __init__(self) -> None:
        self.line, theirs = Pipe()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "holdfast.planning.solver_processes", str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # the parent handles an interrupt from the terminal
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        theirs.close()

    def answer(self) -> Any:
        try:
            well, value = self.line.recv()
        except (EOFError, OSError):
            self.end()
            raise _DiedError(
                f"a solver's process ended with exit code {self.child.returncode} and no answer; "
                "if the machine ran out of memory, plan for fewer PEs or tasks"
            ) from None
        if not well:
            _IDLE.append(self)
            raise HoldfastError(value)
        return value

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self.line.close()


_IDLE: list[_Process] = []  # list.append and list.pop are atomic, so threads may share the list


def _idle_or_new() -> _Process:
    while True:
        try:
            process = _IDLE.pop()
        except IndexError:
            return _Process()
        if process.child.poll() is None:
            return process
        process.end()


@atexit.register
def _end_all() -> None:
    while _IDLE:
        _IDLE.pop().end()


# A forked child must not share its parent's processes.
os.register_at_fork(after_in_child=_IDLE.clear)


def serve(line: Connection[Any, Any]) -> None:
    """Execute calls from the connection until the other end closes it."""
    while True:
        try:
            function, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except HoldfastError as error:
            answer = False, str(error)
        except Exception as error:  # the caller cannot see this process
            answer = (
                False,
                f"a solver failed unexpectedly: {_line(error)}; the traceback is in '{_save_traceback()}': please report it",
            )
        line.send(answer)


def _line(error: Exception) -> str:
    """Return the error's type and message on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _save_traceback() -> str:
    """Write the traceback of the current error to a new file and return its name."""
    with tempfile.NamedTemporaryFile("w", prefix="holdfast-solver-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(traceback.format_exc())
    return file.name


def end_with_parent(parent: int) -> None:
    """Exit this process within seconds after its parent has ended for any reason."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
