"""Objects by name, on a file system or an object store. A new object can be created at most once."""

from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from holdfast.errors import HoldfastError, LogError
from holdfast.log.local_folder import FileCalls, LocalFolder, UnsyncedCalls


class Store:
    """Objects by name. `create` is atomic: an object exists completely or not at all, and the first writer wins.

    A writer that is killed at any moment leaves the complete object or none. An object that was created or replaced survives a
    power loss: `LocalFolder` syncs it unless `sync` is false, and an object store is durable by contract. A power loss may undo a
    removal. Error messages call the store `what`. `owner` identifies the job whose process uses the store; see `fences.py`.
    """

    def __init__(
        self,
        root: str | Path | ObjectStore,
        *,
        what: str = "log",
        sync: bool = True,
        calls: FileCalls | None = None,
        owner: str = "",
    ) -> None:
        self.root, self.sync, self._what, self.owner = str(root), sync, what, owner
        self.remote, self._folder = True, None
        if not isinstance(root, str | Path):
            self._store = root
            return
        try:
            if "://" in str(root):
                self._store = from_url(str(root))
            else:
                self.remote, self._folder = False, LocalFolder(Path(root), calls or (FileCalls() if sync else UnsyncedCalls()))
                self._store = LocalStore(str(root))
        except (BaseError, OSError, ValueError) as error:
            raise HoldfastError(
                f"the {what}'s root '{root}' cannot be opened: {_first_line(error)}; give a folder or an object store's URL"
            ) from error

    def create(self, name: str, content: bytes) -> bool:
        """Store an object unless one of that name exists. Return whether it was stored."""
        try:
            if self._folder is not None:
                return self._folder.create(name, content)
            obstore.put(self._store, name, content, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._error("written", error, "; free space or check permissions") from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Store an object, replacing one of that name atomically."""
        try:
            if self._folder is not None:
                self._folder.replace(name, content)
            else:
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

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        try:
            obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise self._error("read", error) from error
        return True

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


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
