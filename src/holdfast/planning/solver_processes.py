"""Processes that solvers run in. There a solver can be ended at once, whatever it is doing, and what its library prints
reaches nobody's standard output.

A process is started when first needed and kept for the next call; one that is ended while it works is replaced.
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
    """A function of a module and its arguments, all of which can be pickled; `after_s` is when a race starts it."""

    function: Callable[..., T]
    arguments: tuple[object, ...]
    after_s: float = 0.0


def apart(function: Callable[..., T], *arguments: object) -> T:
    """What the function returns, called in another process. An interrupt ends that process."""
    (answer,) = race([Call(function, arguments)], settles=lambda _: True, until=float("inf"))
    assert answer is not None
    return answer


def race(calls: Sequence[Call[T]], *, settles: Callable[[T], bool], until: float) -> list[T | None]:
    """The answers of calls made side by side, None for those that were not waited for.

    Waits for the first answer that settles the matter, else for all, and until `until` on `time.monotonic` at most. A
    call that fails raises its HoldfastError here; a process that dies fails the race only if no other one answers.
    """
    started = time.monotonic()
    answers: list[T | None] = [None] * len(calls)
    running: dict[Connection[Any, Any], tuple[int, _Process]] = {}
    waiting = sorted(range(len(calls)), key=lambda i: (calls[i].after_s, i))
    died: list[HoldfastError] = []
    try:
        while waiting or running:
            now = time.monotonic()
            if now >= until:
                break
            # A call need not wait for its time when nothing else is being tried.
            while waiting and (not running or started + calls[waiting[0]].after_s <= now):
                index = waiting.pop(0)
                process = _taken()
                running[process.line] = index, process
                process.line.send((calls[index].function, calls[index].arguments))
            limit = min(until, started + calls[waiting[0]].after_s if waiting else until)
            for line in wait(list(running), None if limit == float("inf") else max(0.0, limit - time.monotonic())):
                assert isinstance(line, Connection)
                index, process = running.pop(line)
                try:
                    answer: T = process.answer()
                except _DiedError as error:
                    died.append(error)
                    continue
                _IDLE.append(process)
                answers[index] = answer
                if settles(answer):
                    return answers
    finally:
        for _, process in running.values():
            process.end()
    if died and all(answer is None for answer in answers):
        raise died[0]
    return answers


def ready(function: Callable[..., object]) -> None:
    """See to it that a process is there which has loaded the function's module: the next call of it starts at once."""
    apart(_loaded, function)


def _loaded(function: Callable[..., object]) -> bool:
    """True: who has unpickled the function has loaded its module."""
    return callable(function)


def map_in_processes(function: Callable[[A], T], tasks: Iterable[A], *, workers: int) -> Generator[T]:
    """What the function returns for each task, in the order in which they end, made in `workers` processes side by side.

    An interrupt here, or closing the iterator, ends the processes that still work: what they were doing is lost.
    """
    waiting = deque(tasks)
    running: dict[Connection[Any, Any], _Process] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                process = _taken()
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
            start_new_session=True,  # an interrupt at the terminal is the parent's to handle
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        theirs.close()

    def answer(self) -> Any:
        try:
            well, value = self.line.recv()
        except (EOFError, OSError):
            self.end()
            raise _DiedError(
                f"a solver's process ended with exit code {self.child.returncode} before it had an answer; "
                "if the machine ran out of memory, plan a smaller problem"
            ) from None
        if not well:
            _IDLE.append(self)
            raise HoldfastError(value)
        return value

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self.line.close()


_IDLE: list[_Process] = []  # list.append and list.pop are atomic: threads may take and give back as they like


def _taken() -> _Process:
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
    """Answer calls until the other end closes."""
    while True:
        try:
            function, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except HoldfastError as error:
            answer = False, str(error)
        except Exception as error:  # told to the caller, who cannot see this process
            answer = (
                False,
                f"a solver failed unforeseen: {_line(error)}; what it was doing is kept in '{_keep()}': please report it",
            )
        line.send(answer)


def _line(error: Exception) -> str:
    """What kind of error it is and what it says, on one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _keep() -> str:
    """Write the traceback of the error at hand to a file of its own, and return its name."""
    with tempfile.NamedTemporaryFile("w", prefix="holdfast-solver-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(traceback.format_exc())
    return file.name


def end_with_parent(parent: int) -> None:
    """See to it that this process ends, whatever it is doing, within seconds after its parent is gone, however it went."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
