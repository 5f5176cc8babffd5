"""The checkpoint folder of a query: which of its files belong to a batch, and a copy that continues after that batch."""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

NUMBERED = ("offsets", "commits", "watermarks")
"""Folders with one file per batch. A query that finds no later batch there continues after the batch of the newest file."""

PACK_BYTES = 32 * 2**20


def committed_batch(checkpoint: Path) -> int:
    """Return the last batch that the query has committed, or -1."""
    numbers = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return max(numbers, default=-1)


def drop_plan(checkpoint: Path, *, after: int) -> None:
    """Remove the plan of a batch that has failed. Spark would otherwise read its input as soon as the query starts."""
    for path in (checkpoint / "offsets").glob("*"):
        if path.name.isdigit() and int(path.name) > after:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def files_of_batch(checkpoint: Path, batch: int) -> list[str]:
    """Return the names of the files from which a query can continue after a batch. None of them changes once it is there."""
    names: list[str] = []
    for folder, _, files in os.walk(checkpoint):
        for file in files:
            name = str(Path(folder, file).relative_to(checkpoint))
            if file.startswith(".") or file.endswith((".tmp", ".crc")) or name == "metadata":
                continue
            parts = name.split("/")
            if parts[0] in NUMBERED and (not parts[1].isdigit() or int(parts[1]) > batch):
                continue
            names.append(name)
    return sorted(names)


def fork(checkpoint: Path, target: Path, *, batch: int) -> None:
    """Create a checkpoint that continues after a batch of another one. Its files share the disk space of the other's."""
    for name in files_of_batch(checkpoint, batch):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # Spark has just removed a file that this batch does not need
            try:
                os.link(checkpoint / name, path)
            except OSError:
                shutil.copyfile(checkpoint / name, path)
    name_query(target)


def name_query(checkpoint: Path) -> None:
    """Give the query of a checkpoint an identity of its own. Spark would stop another running query with the same identity."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))


def pack(checkpoint: Path, names: Iterable[str]) -> Iterator[tuple[list[str], bytes]]:
    """Yield files of a checkpoint as archives of about `PACK_BYTES`, with the names of the files in each.

    A file that Spark has removed meanwhile is left out: a later batch has made it superfluous.
    """
    pending = list(names)
    while pending:
        buffer, packed = io.BytesIO(), []
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            while pending and buffer.tell() < PACK_BYTES:
                name = pending.pop(0)
                with suppress(FileNotFoundError):
                    content = (checkpoint / name).read_bytes()
                    about = tarfile.TarInfo(name)
                    about.size = len(content)
                    archive.addfile(about, io.BytesIO(content))
                    packed.append(name)
        yield packed, buffer.getvalue()


def unpack(content: bytes, checkpoint: Path, names: set[str]) -> None:
    """Extract the named files of an archive into a checkpoint."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [member for member in archive.getmembers() if member.isfile() and member.name in names]
        archive.extractall(checkpoint, members, filter="data")
