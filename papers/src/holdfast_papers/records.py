"""Records of a study, one line of JSON each. An interrupted study continues from the records that it wrote."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from holdfast.documents import write_whole
from holdfast.errors import HoldfastError

T = TypeVar("T")
Record = dict[str, Any]


class Records:
    """The records of a study in a directory, and the settings that they were made with. Every record has a `key`.

    A directory has one writer at a time; a second one gets a HoldfastError. Without settings, records of any settings are mixed.
    """

    def __init__(self, directory: Path, settings: dict[str, Any] | None, *, name: str = "records") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{name}.jsonl"
        settings_file = directory / "settings.json"
        if settings is not None and settings_file.exists() and (earlier := _read_settings(settings_file)) != settings:
            raise HoldfastError(f"'{directory}' holds {name} made with {earlier}, not {settings}; give another --out")
        lock = os.open(directory / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.close = finalize(self, os.close, lock)
        """Release the directory. Happens automatically when these records are garbage-collected."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HoldfastError(f"another command works in '{directory}'; wait until it ends, or give another --out") from None
        self._records = self._read()
        if settings is not None and not settings_file.exists():
            write_whole(settings_file, json.dumps(settings) + "\n")

    def __getitem__(self, key: str) -> Record:
        return self._records[key]

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def add(self, record: Record) -> None:
        """Append a record to the file."""
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._records[record["key"]] = record

    def fill(
        self,
        function: Callable[[T], Record],
        tasks: Mapping[str, T],
        *,
        workers: int = 1,
        run: Callable[[Callable[[T], Record], Sequence[T]], Generator[Record]] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Record]:
        """Return the records of all tasks, in the order of the tasks. Compute and add the missing ones first.

        `run` computes the records of several tasks, for example on Spark. Without it they run in `workers` local processes.
        """
        missing = [task for key, task in tasks.items() if key not in self]
        done = len(tasks) - len(missing)
        progress(done, len(tasks))
        if not missing:
            return [self[key] for key in tasks]
        with closing(run(function, missing) if run else in_processes(function, missing, workers=workers)) as records:
            for record in records:
                self.add(record)
                done += 1
                progress(done, len(tasks))
        return [self[key] for key in tasks]

    def _read(self) -> dict[str, Record]:
        """Read every complete line. A line that a kill cut short is removed, so that its record is computed again."""
        if not self._path.exists():
            return {}
        try:
            *lines, rest = self._path.read_text().split("\n")
            records = {record["key"]: record for record in map(json.loads, lines)}
        except (ValueError, TypeError, KeyError):
            raise HoldfastError(f"'{self._path}' holds no {self._path.stem} of this command; give another --out") from None
        if rest:
            write_whole(self._path, "".join(line + "\n" for line in lines))
        return records


def _read_settings(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise HoldfastError(f"'{path}' was not written by this command; give another --out, or remove it") from None


def require_own_folder(out: Path, own: Sequence[str]) -> None:
    """Raise HoldfastError unless a study may write into a folder: a new or empty one, or one with a file of the study (`own`)."""
    if not out.is_dir():
        return
    names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    if names and not set(own).intersection(names):
        listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        raise HoldfastError(f"--out '{out}' holds files of something else ({listed}); give a new or empty folder")


def in_processes(function: Callable[[T], Record], tasks: Sequence[T], *, workers: int) -> Generator[Record]:
    """Yield the function's record of each task as it ends. Works in `workers` processes, which end when this process ends."""
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    # Spawned processes: a fork would copy threads of the solvers' libraries.
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        for future in as_completed([pool.submit(function, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool:
        raise HoldfastError(
            "a worker process was killed, perhaps because memory ran out; finished records are kept: run the same command again "
            "with fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """End this worker when the process that started it ends. Otherwise it would wait for tasks forever."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
