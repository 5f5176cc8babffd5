"""Write files atomically, and read the JSON files of a results folder."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from holdfast.errors import HoldfastError


def write_whole(path: Path, content: str | Callable[[IO[bytes]], object]) -> None:
    """Replace the file at path as `replace_file` does, and create its folder. Raises HoldfastError if it cannot be written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)


def replace_file(path: Path, content: str | Callable[[IO[bytes]], object], *, mode: int = 0o644) -> None:
    """Replace the file at path in one step by a text, or by what a function writes to the open file. Raises OSError.

    If the process dies, the path has either the old or the complete new content. `mode` is the most that others may do with it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file. Raises HoldfastError if the file holds none."""
    try:
        document = json.loads(path.read_text())
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise HoldfastError(f"results file '{path}' is damaged; give another folder, or remove this one and start again")
    return document


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the enclosed block, which writes to path, into a HoldfastError. Opens nothing itself."""
    try:
        yield
    except OSError as error:
        raise HoldfastError(
            f"'{path}' cannot be written: {error.strerror}; earlier results are kept: free space or change the permissions, "
            "and run the same command again"
        ) from error
