"""The files in a node's work folder through which the node controller and its PE host communicate.

Either process can be killed and finds the other again. The files are:

- `assignment.json`: an Assignment, written by the controller;
- `host.json`: a HostStatus, written by the PE host;
- `fail.json`: a FailureRequest, written by the process that injects a fault, and removed by a light PE host. PE hosts on Spark
  take fault orders from the folder `faults`;
- `presence.json`: where the PE host opens its request to the orchestrator (`presence.py`), written by the controller;
- `host.pid` and `host.log`: the PE host's process number and output;
- `host.lock` and `node.lock`: locked by the PE host and the controller while they live. `node.lock` contains the controller's
  process number.

Documents are replaced as a whole, so a reader sees the old one or the new one, never a part.
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


class FailureRequest(Part):
    """The keys of replicas that a light PE host should let fail, and the error that they should report."""

    keys: tuple[str, ...]
    error: str = "a fault was injected"


def replace_without_sync(path: Path, text: str) -> None:
    """Replace a file as a whole. The new content survives the death of this process, but not yet a power failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_assignment(work: Path, assignment: Assignment) -> None:
    replace_without_sync(work / ASSIGNMENT, assignment.model_dump_json(exclude_defaults=True))


def write_status(work: Path, status: HostStatus) -> None:
    replace_without_sync(work / STATUS, status.model_dump_json(exclude_defaults=True))


def write_fault_order(works: Iterable[Path], order: Mapping[str, Any], *, at_s: float) -> str:
    """Write a fault order into the work folders of Spark PE hosts and return the order's name.

    A PE host obeys the order if it runs the target replica: see `holdfast.runtime.pe_host`. `order` has a `kind` (crash, stall,
    slow), a `target` and what the kind needs. `at_s` is the present time, because PE hosts ignore old orders.
    """
    name = uuid4().hex
    for work in works:
        folder = work / ORDERS
        folder.mkdir(parents=True, exist_ok=True)
        replace_without_sync(folder / f"{name}.json", json.dumps({"order": name, "at_s": at_s, **order}))
    return name


def request_failure(work: Path, request: FailureRequest) -> None:
    """Ask the light PE host of a node to let replicas fail."""
    replace_without_sync(work / FAIL, request.model_dump_json())


def take_failure_request(work: Path) -> FailureRequest | None:
    """Remove and return the pending request. Returns None if there is none, or if it is not valid."""
    try:
        text = (work / FAIL).read_bytes()
        (work / FAIL).unlink()
    except FileNotFoundError:
        return None
    try:
        return FailureRequest.model_validate_json(text)
    except ValidationError:
        return None


class WatchedFile(Generic[M]):
    """A file that contains one document and is replaced from time to time. `read` parses it only after it was replaced."""

    def __init__(self, path: Path, model: type[M]) -> None:
        self.path, self.model = path, model
        self._mark: tuple[int, int, int] | None = None
        self._value: M | None = None
        self.error: str | None = None
        """Why the present content is not valid; None if it is."""

    def read(self) -> M | None:
        """Return the newest valid document. Returns None before the first one and when the file does not exist."""
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
            self.error = f"'{self.path}' is not a valid {self.model.__name__}: {error.errors()[0]['msg']}"
        self._mark = mark
        return self._value
