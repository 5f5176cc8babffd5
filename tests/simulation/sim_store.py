"""A store in memory. Every operation is a point where the scheduler may act."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.log import Store

from .scheduler import Scheduler

Folders = dict[str, dict[str, bytes]]
NESTED = ("readers", "writes", "fences", "kept", "checkpoints")
"""The folders that have folders of their own."""
NESTED_FOLDERS = "/nested"
"""Where a location keeps the lists of these."""


class SimStore(Store):
    """One view of the objects of a location, as a process opens it. `on_change` sees every change: the name and the old and new
    content."""

    remote = False

    def __init__(
        self,
        location: str,
        folders: Folders,
        scheduler: Scheduler,
        on_change: Callable[[str, str, bytes | None, bytes | None], None],
        *,
        what: str = "log",
    ) -> None:
        self.root, self._what, self.owner = location, what, ""
        self._folders, self._scheduler, self._on_change = folders, scheduler, on_change
        self._nested: dict[str, list[str]] = folders.setdefault(NESTED_FOLDERS, {top: [] for top in NESTED})  # type: ignore[assignment,arg-type]

    def create(self, name: str, content: bytes) -> bool:
        trap = self._scheduler.step(writes=True)
        folder = self._folder(name)
        stored = name not in folder
        if stored:
            self._put(folder, name, content)
        if trap is not None:
            if trap.kind == "repeat":
                return False  # the first answer was lost, and the second attempt finds the object
            self._scheduler.finish(trap)
        return stored

    def replace(self, name: str, content: bytes) -> None:
        trap = self._scheduler.step(writes=True)
        self._put(self._folder(name), name, content)
        if trap is not None and trap.kind != "repeat":
            self._scheduler.finish(trap)

    def read(self, name: str) -> bytes | None:
        trap = self._scheduler.step()
        if trap is not None:
            self._scheduler.finish(trap)
        folder = self._folders.get(name.rpartition("/")[0])
        return None if folder is None else folder.get(name)

    def exists(self, name: str) -> bool:
        return self.read(name) is not None

    def remove(self, names: list[str]) -> None:
        for name in names:
            trap = self._scheduler.step(writes=False)
            folder = self._folders.get(name.rpartition("/")[0])
            if folder is not None and name in folder:
                self._on_change(self.root, name, folder.pop(name), None)
            if trap is not None:
                self._scheduler.finish(trap)

    def names(self, prefix: str) -> Iterator[str]:
        trap = self._scheduler.step()
        path = prefix.rstrip("/")
        names = list(self._folders.get(path, ()))
        nested = self._nested.get(path.partition("/")[0])
        if nested:
            start = f"{path}/"
            names += [name for folder in nested if folder.startswith(start) for name in self._folders[folder]]
        if trap is not None:
            self._scheduler.finish(trap)
        return iter(names)

    def restore(self, name: str, content: bytes) -> None:
        """Let an object be there after a power loss."""
        self._folder(name)[name] = content

    def _folder(self, name: str) -> dict[str, bytes]:
        path = name.rpartition("/")[0]
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = {}
            if (top := path.partition("/")[0]) in NESTED:
                self._nested[top].append(path)
        return folder

    def _put(self, folder: dict[str, bytes], name: str, content: bytes) -> None:
        previous = folder.get(name)
        folder[name] = content
        self._on_change(self.root, name, previous, content)
        self._scheduler.changed(self.root, name.rpartition("/")[0])
