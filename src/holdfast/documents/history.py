"""The history of a run: what was done and what was seen, one line of JSON per event, in files that survive their writer."""

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
    """Something that happened: when, who says so, what kind of thing, and what there is to say about it."""

    at_s: float
    by: str
    kind: str
    about: dict[str, Any]


MOST_BYTES = 2**28
"""A writer's file that has grown to this begins anew; the one before it is kept, and what is older is forgotten."""


class History:
    """Appends events to one writer's file. A line is written at once, so that a killed process loses none."""

    def __init__(self, path: Path, by: str, *, most_bytes: int = MOST_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._by, self._most = path, by, most_bytes
        self._lock = threading.Lock()
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def tell(self, kind: str, about: dict[str, object], *, at_s: float | None = None) -> None:
        """Write what has happened now, or at a moment that is told."""
        moment = round(time.time() if at_s is None else at_s, 4)
        line = json.dumps({"at_s": moment, "by": self._by, "kind": kind, **about}, default=str)
        with self._lock:
            self._file.write(line + "\n")
            if self._file.tell() >= self._most:
                self._file.close()
                self._path.replace(self._path.with_name(f"{self._path.stem}-before.jsonl"))
                self._file = self._path.open("a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        with self._lock:
            self._file.close()


def read_history(*folders: Path) -> list[HistoryEvent]:
    """All events of a run in the order of time, from every file below the folders. A last line cut short by a kill is left out."""
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
            raise HoldfastError(f"history '{path}', line {number}: no event ({error})") from error
