"""Objects by name, on a file system or an object store. A new object can be created at most once."""

from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from holdfast.errors import HoldfastError, LogError


class Store:
    """Objects by name. `create` is atomic: an object exists completely or not at all, and the first writer wins.

    On a file system a new object is written under another name and then linked; on an object store it is a conditional put. A
    writer that is killed at any moment therefore leaves the complete object or none. Error messages call the store `what`.
    """

    def __init__(self, root: str | Path | ObjectStore, *, what: str = "log") -> None:
        self.root, self._what = str(root), what
        if not isinstance(root, str | Path):
            self._store = root
            return
        try:
            self._store = from_url(str(root)) if "://" in str(root) else _local_store(Path(root))
        except (BaseError, OSError, ValueError) as error:
            raise HoldfastError(
                f"the {what}'s root '{root}' cannot be opened: {_first_line(error)}; give a folder or an object store's URL"
            ) from error

    def create(self, name: str, content: bytes) -> bool:
        """Store an object unless one of that name exists. Return whether it was stored."""
        try:
            obstore.put(self._store, name, content, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._error("written", error, "; free space or check permissions") from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Store an object, replacing one of that name atomically."""
        try:
            obstore.put(self._store, name, content, mode="overwrite")
        except (BaseError, OSError) as error:
            raise self._error("written", error, "; free space or check permissions") from error

    def read(self, name: str) -> bytes | None:
        """Return the content of an object, or None if it does not exist."""
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._error("read", error) from error

    def remove(self, names: list[str]) -> None:
        """Remove objects, ignoring those that do not exist."""
        for name in names:
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                continue
            except (BaseError, OSError) as error:
                raise self._error("trimmed", error, "; check permissions") from error

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of all objects under a prefix, in no particular order."""
        try:
            for batch in obstore.list(self._store, prefix):
                yield from (entry["path"] for entry in batch)
        except (BaseError, OSError) as error:
            raise self._error("listed", error) from error

    def damage(self, name: str, error: object) -> HoldfastError:
        """Return the error for an object whose content cannot be decoded, for example because it is truncated."""
        return HoldfastError(
            f"object '{name}' of the {self._what} at '{self.root}' is damaged: {_first_line(error)}; "
            f"restore it from a backup, or start the job with a new {self._what}"
        )

    def _error(self, action: str, error: BaseException, advice: str = "") -> LogError:
        return LogError(f"the {self._what} at '{self.root}' cannot be {action}: {_first_line(error)}{advice}")


def _local_store(path: Path) -> ObjectStore:
    path.mkdir(parents=True, exist_ok=True)
    return LocalStore(str(path))


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
