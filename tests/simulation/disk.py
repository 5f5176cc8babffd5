"""A simulated disk under the real `LocalFolder`. A power loss undoes what was not synced.

Changes of names are kept in a journal, in order. Syncing a folder makes the journal durable up to then; syncing a file makes its
content durable. A power loss keeps a random beginning of the rest of the journal, and files without their content.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.log.local_folder import FileCalls, LocalFolder

from .scheduler import Scheduler
from .sim_store import Folders, SimStore

ROOT = Path("/simulated")


@dataclass(eq=False, slots=True)
class File:
    """The content of a file, and whether it is on the disk."""

    content: bytes
    synced: bool = False


class Disk:
    """The names in one location, and the journal of those that are not durable."""

    def __init__(self) -> None:
        self.files: dict[Path, File] = {}
        self.folders: set[Path] = set()
        self.journal: list[tuple[Path, File | None, File | None]] = []

    def set(self, path: Path, file: File | None) -> None:
        self.journal.append((path, self.files.get(path), file))
        if file is None:
            self.files.pop(path, None)
        else:
            self.files[path] = file

    def lose_power(self, rng: random.Random) -> dict[Path, bytes]:
        """Undo what was not synced. Return the content of all files."""
        kept = rng.randint(0, len(self.journal))
        for path, before, _ in reversed(self.journal[kept:]):
            if before is None:
                self.files.pop(path, None)
            else:
                self.files[path] = before
        self.journal.clear()
        for file in self.files.values():
            if not file.synced:
                file.content, file.synced = file.content[: len(file.content) // 2], True
        return {path: file.content for path, file in self.files.items()}


class SimCalls(FileCalls):
    """The system calls of one process."""

    def __init__(self, disk: Disk, step: Callable[[], None], on_name: Callable[[Path, bytes | None], None]) -> None:
        self._disk, self._step, self._on_name = disk, step, on_name

    def make_folder(self, path: Path) -> Path:
        self._disk.folders.add(path)
        return path

    def exists(self, path: Path) -> bool:
        return path in self._disk.files or path in self._disk.folders

    def ages_s(self, folder: Path) -> dict[str, float]:
        return {}

    def write(self, path: Path, content: bytes) -> None:
        self._disk.set(path, File(content))
        self._step()

    def sync(self, path: Path) -> None:
        file = self._disk.files.get(path)
        if file is not None:
            self._step()
            file.synced = True
        else:
            self._disk.journal.clear()  # nobody else may run here: the caller holds a lock

    def link(self, path: Path, name: Path) -> None:
        if name in self._disk.files:
            raise FileExistsError(name)
        self._disk.set(name, self._disk.files[path])
        self._on_name(name, self._disk.files[path].content)
        self._step()

    def rename(self, path: Path, name: Path) -> None:
        self._disk.set(name, self._disk.files[path])
        self._disk.set(path, None)
        self._on_name(name, self._disk.files[name].content)
        self._step()

    def remove(self, path: Path) -> None:
        if path in self._disk.files:
            self._disk.set(path, None)


class DiskStore(SimStore):
    """A store on a simulated disk, written by the real `LocalFolder`."""

    def __init__(self, location: str, folders: Folders, disk: Disk, scheduler: Scheduler, on_change: object, *, what: str) -> None:
        super().__init__(location, folders, scheduler, on_change, what=what)  # type: ignore[arg-type]
        self._disk, self._root = disk, ROOT / location
        self._local = LocalFolder(self._root, SimCalls(disk, self._turn, self._named))

    def create(self, name: str, content: bytes) -> bool:
        trap = self._scheduler.step(writes=True)
        stored = self._local.create(name, content)
        if trap is not None:
            if trap.kind == "repeat":
                return False
            self._scheduler.finish(trap)
        return stored

    def replace(self, name: str, content: bytes) -> None:
        trap = self._scheduler.step(writes=True)
        self._local.replace(name, content)
        if trap is not None and trap.kind != "repeat":
            self._scheduler.finish(trap)

    def remove(self, names: list[str]) -> None:
        for name in names:
            super().remove([name])
            if self._root / name in self._disk.files:
                self._disk.set(self._root / name, None)

    def _named(self, path: Path, content: bytes | None) -> None:
        assert content is not None
        name = path.relative_to(self._root).as_posix()
        self._put(self._folder(name), name, content)

    def _turn(self) -> None:
        trap = self._scheduler.step(log=False)
        if trap is not None:
            self._scheduler.finish(trap)
