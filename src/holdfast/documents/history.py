"""The history of a run: what was done and observed, one JSON event per line. The files survive the process that writes them."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class HistoryEvent:
    """One event: when it happened, which writer recorded it, its kind, and its details."""

    at_s: float
    by: str
    kind: str
    about: dict[str, Any]


MAX_BYTES = 2**28
"""At this size a writer starts a new file. It keeps the previous file and removes the one before that."""


class History:
    """Appends events to one writer's file. Each line is written at once, so that a killed process loses none."""

    def __init__(self, path: Path, by: str, *, max_bytes: int = MAX_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._by, self._max_bytes = path, by, max_bytes
        self._lock = threading.Lock()
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def append(self, kind: str, about: dict[str, object], *, at_s: float | None = None) -> None:
        """Write an event that happened now, or at `at_s`."""
        time_s = round(time.time() if at_s is None else at_s, 4)
        line = json.dumps({"at_s": time_s, "by": self._by, "kind": kind, **about}, default=str)
        with self._lock:
            self._file.write(line + "\n")
            if self._file.tell() >= self._max_bytes:
                self._file.close()
                self._path.replace(self._path.with_name(f"{self._path.stem}-before.jsonl"))
                self._file = self._path.open("a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        with self._lock:
            self._file.close()


def read_history(*folders: Path) -> list[HistoryEvent]:
    """Return all events below the folders in the order of time. A last line that a kill cut short is left out."""
    events: list[HistoryEvent] = []
    for folder in folders:
        for path in sorted(folder.rglob("history*.jsonl")):
            events += _lines(path)
    return sorted(events, key=lambda event: event.at_s)


def _lines(path: Path) -> Iterator[HistoryEvent]:
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            data = json.loads(line)
            yield HistoryEvent(data.pop("at_s"), data.pop("by"), data.pop("kind"), data)
        except (ValueError, KeyError, AttributeError) as error:
            if number == text.count("\n") + 1:
                return
            raise HoldfastError(f"history '{path}', line {number}: is not an event ({error})") from error
