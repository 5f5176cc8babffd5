"""The files through which a node controller and its PE host speak, so that either can be killed and find the other again.

In the node's work folder: `assignment.json` (an Assignment, written by the controller), `host.json` (a HostStatus, written by the
host), `fail.json` (a Fail, written by whoever injects a fault, and taken away by the host; for hosts on Spark, orders in the folder
`faults`), `host.pid`, `host.log`. All are replaced whole: a reader sees the old or the new, never a half. Whoever lives holds a
lock, on `host.lock` and `node.lock`; the latter has the controller's process number in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from holdfast.documents.document import Part
from holdfast.protocol.messages import Assignment, HostStatus

ASSIGNMENT = "assignment.json"
STATUS = "host.json"
FAIL = "fail.json"
ORDERS = "faults"
PID = "host.pid"
LOG = "host.log"
LOCK = "host.lock"
CONTROLLER_LOCK = "node.lock"

M = TypeVar("M", bound=BaseModel)


class Fail(Part):
    """Replicas that a PE host shall let fail, by their keys, and what they shall say."""

    keys: tuple[str, ...]
    error: str = "a fault was injected"


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all. It outlives the process at once, the power only when the system has written it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_assignment(work: Path, assignment: Assignment) -> None:
    replace_file(work / ASSIGNMENT, assignment.model_dump_json(exclude_defaults=True))


def write_status(work: Path, status: HostStatus) -> None:
    replace_file(work / STATUS, status.model_dump_json(exclude_defaults=True))


def leave_order(works: Iterable[Path], order: Mapping[str, Any], *, at_s: float) -> str:
    """Leave an order for replicas in the folders of Spark PE hosts, which obey those that have one: see `holdfast.runtime.pe_host`.

    `order` has a `kind` (crash, stall, slow), a `target` and what the kind needs. `at_s` is now: one that is not obeyed soon is
    obeyed never. Returns the order's name.
    """
    name = uuid4().hex
    for work in works:
        folder = work / ORDERS
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{name}.json", json.dumps({"order": name, "at_s": at_s, **order}))
    return name


def ask_to_fail(work: Path, fail: Fail) -> None:
    """Have the PE host of a node let replicas fail; it does so within a moment."""
    replace_file(work / FAIL, fail.model_dump_json())


def take_fail(work: Path) -> Fail | None:
    """The fault that was asked for, if any; it is taken away."""
    try:
        text = (work / FAIL).read_bytes()
        (work / FAIL).unlink()
    except FileNotFoundError:
        return None
    try:
        return Fail.model_validate_json(text)
    except ValidationError:
        return None  # a fault that cannot be read is no reason to die


class Watched(Generic[M]):
    """A file that holds one value and is replaced now and then. `read` parses it again only when it was replaced."""

    def __init__(self, path: Path, model: type[M]) -> None:
        self.path, self.model = path, model
        self._mark: tuple[int, int, int] | None = None
        self._value: M | None = None
        self.error: str | None = None
        """Why the file as it is now cannot be understood; None where it can."""

    def read(self) -> M | None:
        """The newest value that could be read; None before the first, and when the file is gone."""
        try:
            stat = self.path.stat()
            mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if mark == self._mark:
                return self._value
            text = self.path.read_bytes()
        except FileNotFoundError:
            self._mark = self._value = None
            return None
        try:
            self._value, self.error = self.model.model_validate_json(text), None
        except ValidationError as error:
            self.error = f"'{self.path}' cannot be understood: {error.errors()[0]['msg']}"
        self._mark = mark
        return self._value
