"""Files of a results folder: written whole or not at all, and told in words where they cannot be."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from holdfast.errors import HoldfastError


def write_whole(path: Path, content: str | Callable[[IO[bytes]], object]) -> None:
    """Write a text, or what a function puts into a file, so that it is there whole or not at all whenever the process dies."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
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
    """The table of a JSON file; HoldfastError where it is none."""
    try:
        document = json.loads(path.read_text())
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise HoldfastError(f"results file '{path}' is damaged; give another folder, or remove this one and start again")
    return document


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system says against writing, as a HoldfastError."""
    try:
        yield
    except OSError as error:
        raise HoldfastError(
            f"'{path}' cannot be written: {error.strerror}; what was written before is kept: make room or get the right to write "
            "there, and run the same command again"
        ) from error
