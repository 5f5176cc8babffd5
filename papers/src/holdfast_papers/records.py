"""Records of a study, one line of JSON each, written as they are made: a study that was interrupted goes on where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from holdfast.errors import HoldfastError

T = TypeVar("T")
Record = dict[str, Any]


class Records:
    """A study's records in a directory, with the settings they were made with. Every record has a `key`.

    A directory has one writer at a time; another gets a HoldfastError.
    """

    def __init__(self, directory: Path, settings: dict[str, Any], *, name: str = "records") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{name}.jsonl"
        noted = directory / "settings.json"
        if noted.exists() and (before := _settings(noted)) != settings:
            raise HoldfastError(f"'{directory}' holds records made with {before}, not {settings}; give another --out")
        lock = os.open(directory / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.close = finalize(self, os.close, lock)
        """Leave the directory to others; happens of itself when nobody has these records any more."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HoldfastError(f"another command is working in '{directory}'; wait for its end, or give another --out") from None
        if not noted.exists():
            _replace(noted, json.dumps(settings) + "\n")
        self._kept = self._read()

    def __getitem__(self, key: str) -> Record:
        return self._kept[key]

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def add(self, record: Record) -> None:
        """Keep a record, at once."""
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._kept[record["key"]] = record

    def fill(
        self,
        function: Callable[[T], Record],
        tasks: Mapping[str, T],
        *,
        workers: int = 1,
        spread: Callable[[Callable[[T], Record], Sequence[T]], Iterator[Record]] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Record]:
        """The records of all tasks, by key, in their order; those that are missing are made, in so many processes, and kept.

        `spread` makes the records of tasks elsewhere, in place of processes here.
        """
        missing = [task for key, task in tasks.items() if key not in self]
        done = len(tasks) - len(missing)
        progress(done, len(tasks))
        if not missing:
            return [self[key] for key in tasks]
        for record in spread(function, missing) if spread else in_processes(function, missing, workers=workers):
            self.add(record)
            done += 1
            progress(done, len(tasks))
        return [self[key] for key in tasks]

    def _read(self) -> dict[str, Record]:
        """Every whole line; one cut short by a kill is made again."""
        if not self._path.exists():
            return {}
        try:
            lines = self._path.read_text().split("\n")
            found = {record["key"]: record for record in map(json.loads, lines[:-1])}
        except (ValueError, TypeError, KeyError):
            raise HoldfastError(
                f"'{self._path}' holds something else than records of this command; give another --out, or remove it"
            ) from None
        if lines[-1]:
            _replace(self._path, "".join(line + "\n" for line in lines[:-1]))
        return found


def _settings(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise HoldfastError(f"'{path}' was not written by this command; give another --out, or remove it") from None


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whenever the process is killed."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.replace(path)


def in_processes(function: Callable[[T], Record], tasks: Sequence[T], *, workers: int) -> Iterator[Record]:
    """The function's records of all tasks as they are made, in so many processes, which end with this one however it ends."""
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    # Fresh processes: a fork would copy threads of the solvers' libraries.
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        for future in as_completed([pool.submit(function, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool:
        raise HoldfastError(
            "a worker process was killed, perhaps for want of memory; what was done is kept: run the same command again, with "
            "fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Watch for the end of the process that started this one: a worker whose parent was killed would wait for tasks for ever."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
