"""Records of a study, one line of JSON each, written as they are made: a study that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import HoldfastError

T = TypeVar("T")
Record = dict[str, Any]


class Records:
    """A study's records in a directory, with the settings they were made with. Every record has a `key`."""

    def __init__(self, directory: Path, settings: dict[str, Any], *, name: str = "records") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{name}.jsonl"
        noted = directory / "settings.json"
        if noted.exists() and (before := json.loads(noted.read_text())) != settings:
            raise HoldfastError(f"'{directory}' holds records made with {before}, not {settings}; give another --out")
        noted.write_text(json.dumps(settings) + "\n")
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

    def _read(self) -> dict[str, Record]:
        """Every whole line; one cut short by a kill is made again."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text().split("\n")
        if lines[-1]:
            self._path.write_text("".join(line + "\n" for line in lines[:-1]))
        return {record["key"]: record for record in map(json.loads, lines[:-1])}


def in_processes(function: Callable[[T], Record], tasks: Sequence[T], *, workers: int) -> Iterator[Record]:
    """The function's records of all tasks as they are made, in so many processes."""
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    # Fresh processes: a fork would copy threads of the solvers' libraries.
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(function, task) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
