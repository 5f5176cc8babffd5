"""A folder of objects that survive a power loss: an object counts once its file and all folders above it are synced.

A new object is written under a temporary name, synced, and linked to its own name; then its folder is synced. A process that is
killed between two steps leaves the complete object or none, and at most a temporary file. Its name begins with a dot, so that Spark
does not read it, and ends in `#` and digits, so that obstore neither lists nor reads it.
"""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from uuid import uuid4

STALE_AFTER_S = 3600.0
"""The age at which a temporary file is removed, because its writer has died. A writer that lives fails, and tries again."""

TEMPORARY_NAME = re.compile(r".*#\d+")


class FileCalls:
    """The system calls that a folder of objects needs. A test may record them, end the process between two, or simulate a disk."""

    def make_folder(self, path: Path) -> Path:
        """Create a folder and those above it, unless they exist. Return its absolute path."""
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve()

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or folder."""
        return path.exists()

    def ages_s(self, folder: Path) -> dict[str, float]:
        """Return the age of each temporary file in a folder, by name."""
        ages: dict[str, float] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                if TEMPORARY_NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):  # its writer has just removed it
                        ages[entry.name] = time.time() - entry.stat().st_mtime
        return ages

    def write(self, path: Path, content: bytes) -> None:
        """Create a file. Raises FileExistsError if there is one, FileNotFoundError if there is no folder for it."""
        with path.open("xb") as file:
            file.write(content)

    def sync(self, path: Path) -> None:
        """Wait until the content of a file, or the names in a folder, are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, path: Path, name: Path) -> None:
        """Give a file a second name. Raises FileExistsError if that exists."""
        os.link(path, name)

    def rename(self, path: Path, name: Path) -> None:
        """Give a file another name, replacing a file of that name."""
        path.replace(name)

    def remove(self, path: Path) -> None:
        """Remove a name of a file, if it exists."""
        path.unlink(missing_ok=True)


class UnsyncedCalls(FileCalls):
    """System calls that survive a killed process, but not a power loss."""

    def sync(self, path: Path) -> None:
        pass


class LocalFolder:
    """Writes the objects of a folder. The objects may be read in any way. Threads that write into one folder share its syncs.

    Another process may see an object just before its folder is synced. A journal keeps the order of changes, so what that process
    syncs later never outlives the object.
    """

    def __init__(self, root: Path, calls: FileCalls) -> None:
        self._root, self._calls = calls.make_folder(root), calls
        self._prepared: set[Path] = set()
        self._waiting: dict[Path, Future[None]] = {}
        self._syncing: dict[Path, Lock] = {}
        self._lock = Lock()

    def create(self, name: str, content: bytes) -> bool:
        """Store an object unless one of that name exists. Return whether it was stored. The object is then durable in any case."""
        path = self._path(name)
        stored = False
        if not self._calls.exists(path):
            with self._temporary(path, content) as temporary, suppress(FileExistsError):
                self._calls.link(temporary, path)
                stored = True
        self._sync_folder(path.parent)
        return stored

    def replace(self, name: str, content: bytes) -> None:
        """Store an object, replacing one of that name in one step."""
        path = self._path(name)
        with self._temporary(path, content) as temporary:
            self._calls.rename(temporary, path)
        self._sync_folder(path.parent)

    def _path(self, name: str) -> Path:
        """Return the file of an object. Raises ValueError for a name that points elsewhere or is that of a temporary file."""
        if not set(name.split("/")).isdisjoint({"", ".", ".."}) or TEMPORARY_NAME.fullmatch(name):
            raise ValueError(f"'{name}' is not the name of an object")
        return self._root / name

    @contextmanager
    def _temporary(self, path: Path, content: bytes) -> Iterator[Path]:
        """Write content to a temporary file beside a path, sync it, and remove it at the end."""
        temporary = path.with_name(f".{path.name}#{uuid4().int % 10**16}")
        if path.parent not in self._prepared or not self._calls.exists(path.parent):
            self._prepare(path.parent)
        try:
            self._calls.write(temporary, content)
            self._calls.sync(temporary)
            yield temporary
        finally:
            self._calls.remove(temporary)

    def _prepare(self, folder: Path) -> None:
        """Create a folder, make it durable, and remove its stale temporary files.

        All folders above it are synced too, because another process may have died after it had created one. Those above the root
        that this user may not read were not created by holdfast.
        """
        self._calls.make_folder(folder)
        for parent in folder.parents:
            try:
                self._calls.sync(parent)
            except OSError:
                if self._root in (parent, *parent.parents):
                    raise
        for name, age_s in sorted(self._calls.ages_s(folder).items()):
            if age_s > STALE_AFTER_S:
                self._calls.remove(folder / name)
        self._prepared.add(folder)

    def _sync_folder(self, folder: Path) -> None:
        """Sync a folder. Threads that arrive while it is being synced wait, and share the next sync. All of them see its error."""
        with self._lock:
            is_leader = folder not in self._waiting
            sync = self._waiting.setdefault(folder, Future())
            turn = self._syncing.setdefault(folder, Lock())
        if is_leader:
            with turn:
                with self._lock:
                    del self._waiting[folder]  # who arrives from now on needs a later sync
                try:
                    self._calls.sync(folder)
                    sync.set_result(None)
                except BaseException as error:
                    sync.set_exception(error)
        sync.result()
