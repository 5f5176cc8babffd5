"""Small objects under names, created at most once, on a file system or an object store."""

from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from holdfast.errors import HoldfastError, LogError


class Store:
    """Objects by name. `create` is atomic: an object is there whole or not at all, and the first writer wins.

    On a file system a new object is written beside its name and linked to it, on an object store it is a conditional put; so a
    writer that is killed at any moment leaves either the whole object or none. `what` is what errors call it.
    """

    def __init__(self, root: str | Path | ObjectStore, *, what: str = "log") -> None:
        self.root, self._what = str(root), what
        if not isinstance(root, str | Path):
            self._store = root
            return
        try:
            self._store = from_url(str(root)) if "://" in str(root) else _local(Path(root))
        except (BaseError, OSError, ValueError) as error:
            raise HoldfastError(
                f"the {what}'s root '{root}' cannot be opened: {_said(error)}; give a folder or an object store's URL"
            ) from error

    def create(self, name: str, content: bytes) -> bool:
        """Store an object unless one of that name is there; whether it was stored."""
        try:
            obstore.put(self._store, name, content, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise LogError(
                f"the {self._what} at '{self.root}' cannot be written: {_said(error)}; free space or check permissions"
            ) from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Store an object whether or not one of that name is there: a reader sees the old or the new."""
        try:
            obstore.put(self._store, name, content, mode="overwrite")
        except (BaseError, OSError) as error:
            raise LogError(
                f"the {self._what} at '{self.root}' cannot be written: {_said(error)}; free space or check permissions"
            ) from error

    def read(self, name: str) -> bytes | None:
        """The content of an object, or None where there is none."""
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise LogError(f"the {self._what} at '{self.root}' cannot be read: {_said(error)}") from error

    def remove(self, names: list[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        for name in names:
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                continue
            except (BaseError, OSError) as error:
                raise LogError(f"the {self._what} at '{self.root}' cannot be trimmed: {_said(error)}; check permissions") from error

    def names(self, prefix: str) -> Iterator[str]:
        """The names of all objects below a prefix, in no order."""
        try:
            for batch in obstore.list(self._store, prefix):
                yield from (entry["path"] for entry in batch)
        except (BaseError, OSError) as error:
            raise LogError(f"the {self._what} at '{self.root}' cannot be listed: {_said(error)}") from error


def _local(path: Path) -> ObjectStore:
    path.mkdir(parents=True, exist_ok=True)
    return LocalStore(str(path))


def _said(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
