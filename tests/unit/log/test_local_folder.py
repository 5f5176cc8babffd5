"""Objects in a folder: durable after a power loss, complete after a kill, and never mistaken for temporary files."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import LogError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.local_folder import STALE_AFTER_S, FileCalls, LocalFolder
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter


class Disk(FileCalls):
    """Records the calls, and knows what a power loss would leave: synced contents under names that were in a synced folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, list[str]()
        self._synced_inodes, self._synced_names = set[int](), dict[Path, set[str]]()
        self.after_call: Callable[[], None] = lambda: None

    def write(self, path: Path, content: bytes) -> None:
        super().write(path, content)
        self._note("write", path)

    def sync(self, path: Path) -> None:
        super().sync(path)
        if path.is_dir():
            self._synced_names[path] = set(names_in(path))
        else:
            self._synced_inodes.add(path.stat().st_ino)
        self._note("sync", path)

    def link(self, path: Path, name: Path) -> None:
        super().link(path, name)
        self._note("link", name)

    def rename(self, path: Path, name: Path) -> None:
        super().rename(path, name)
        self._note("rename", name)

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._note("remove", path)

    def _note(self, call: str, path: Path) -> None:
        if path.is_relative_to(self.root):
            name = path.relative_to(self.root).as_posix()
            self.calls.append(f"{call} {name.split('#')[0]}{'#' if '#' in name else ''}")
        self.after_call()

    def keeps(self, name: str) -> bool:
        """Return whether an object would be there after a power loss."""
        path = self.root / name
        ancestors = [folder for folder in path.parents if folder.is_relative_to(self.root)]
        chain = zip([path, *ancestors], [*ancestors, self.root.parent], strict=True)
        is_named = all(entry.name in self._synced_names.get(folder, ()) for entry, folder in chain)
        return is_named and path.stat().st_ino in self._synced_inodes


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "log")


def open_store(disk: Disk) -> Store:
    return Store(disk.root, calls=disk)


def test_new_object_is_synced_before_and_after_it_gets_its_name(disk: Disk) -> None:
    store = open_store(disk)
    assert store.create("a/b", b"1")
    assert disk.calls == ["sync .", "write a/.b#", "sync a/.b#", "link a/b", "remove a/.b#", "sync a"]
    assert disk.keeps("a/b")


def test_replacement_is_synced_before_and_after_it_gets_its_name(disk: Disk) -> None:
    store = open_store(disk)
    store.create("a/b", b"1")
    disk.calls.clear()
    store.replace("a/b", b"2")
    assert disk.calls == ["write a/.b#", "sync a/.b#", "rename a/b", "remove a/.b#", "sync a"]
    assert disk.keeps("a/b") and store.read("a/b") == b"2"


def test_create_makes_a_dead_writers_object_durable(disk: Disk) -> None:
    (disk.root / "a").mkdir(parents=True)
    (disk.root / "a/b").write_bytes(b"1")
    assert not open_store(disk).create("a/b", b"2")
    assert disk.calls[-1] == "sync a"
    assert (disk.root / "a/b").read_bytes() == b"1"


def test_without_sync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    Store(tmp_path / "durable").create("a/b", b"1")
    assert synced
    synced.clear()
    store = Store(tmp_path / "fast", sync=False)
    assert store.create("a/b", b"1") and not store.create("a/b", b"2")
    store.replace("a/c", b"3")
    assert sorted(store.names("a/")) == ["a/b", "a/c"] and synced == []


def test_rows_and_then_record_are_durable_before_the_announcement(disk: Disk) -> None:
    store = open_store(disk)
    log = EpochLog(store)
    announced_records: list[tuple[str, int]] = []
    announced: list[tuple[str, int]] = []

    def check_rows() -> None:
        for stream in ("a", "b"):
            for epoch in (1, 2):
                name = f"records/{stream}/0/{epoch:020d}.first"
                if (disk.root / name).exists() and disk.keeps(name):
                    record = log.first(stream, 0, epoch=epoch)
                    assert record is not None and all(disk.keeps(file) for file in record.files)
                    announced_records.append((stream, epoch))

    def announce(kind: str, about: dict[str, object]) -> None:
        assert disk.keeps(f"records/{about['stream']}/0/{about['epoch']:020d}.first")
        announced.append((str(about["stream"]), int(str(about["epoch"]))))

    disk.after_call = check_rows
    writer = OutputWriter(store, 0, "p", Timeline(1, None, 1.0, opened_s=0.0), announce)
    for epoch in (1, 2):
        for stream in ("a", "b"):
            writer.publish(stream, epoch, rows=pa.table({"seq": [1, 2]}), quality=Quality.EXACT)
    assert announced == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert set(announced) == set(announced_records)


class SlowSync(FileCalls):
    """Holds the first sync of a folder until the test releases it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.syncs = folder, 0
        self.entered, self.released = threading.Event(), threading.Event()
        self.error: OSError | None = None

    def sync(self, path: Path) -> None:
        if path == self.folder:
            self.syncs += 1
            self.entered.set()
            self.released.wait(30)
            if self.error is not None:
                raise self.error
        super().sync(path)


def followers(store: Store, folder: Path) -> int:
    """Return how many threads wait for another thread to make the next sync of a folder."""
    assert store._folder is not None
    sync = store._folder._waiting.get(folder)
    return 0 if sync is None else len(vars(vars(sync)["_condition"])["_waiters"])


@pytest.mark.parametrize("fails", [False, True])
def test_writers_that_wait_for_a_folder_share_its_next_sync(tmp_path: Path, fails: bool) -> None:
    calls = SlowSync(tmp_path / "a")
    store = Store(tmp_path, calls=calls)
    calls.error = OSError(5, "Input/output error") if fails else None
    failures: list[str] = []

    def create(name: str) -> None:
        try:
            store.create(name, b"1")
        except LogError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=create, args=(f"a/{number}",)) for number in range(5)]
    threads[0].start()
    assert calls.entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    deadline_s = time.monotonic() + 30
    while followers(store, tmp_path / "a") < 3:  # of the next sync; the fourth thread leads it
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    calls.released.set()
    for thread in threads:
        thread.join(30)
    assert calls.syncs == 2
    assert len(failures) == (5 if fails else 0)
    assert all("cannot be written" in failure for failure in failures)


KILLED_AT_EVERY_STEP = """
import os, signal, sys
from pathlib import Path
from holdfast.log.local_folder import FileCalls, LocalFolder

class Killed(FileCalls):
    def __init__(self, at):
        self.left = at

    def __getattribute__(self, name):
        if name in ("write", "sync", "link", "rename", "remove"):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)

root, step = Path(sys.argv[1]), 0
while True:
    folder = root / str(step)
    folder.mkdir(parents=True)
    (folder / "old").write_bytes(b"old")
    child = os.fork()
    if child == 0:
        local = LocalFolder(folder, Killed(step))
        local.create("new", b"new" * 1000)
        local.replace("old", b"newer" * 1000)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    step += 1
print(step)
"""


def test_writer_killed_between_any_two_calls_leaves_whole_objects(tmp_path: Path) -> None:
    script = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(tmp_path)]
    steps = int(subprocess.run(script, check=True, capture_output=True, text=True).stdout)
    results = set()
    for step in range(steps + 1):
        store = Store(tmp_path / str(step))
        assert set(store.names("")) <= {"new", "old"}
        results.add((store.read("new"), store.read("old")))
    new, newer = b"new" * 1000, b"newer" * 1000
    assert results == {(None, b"old"), (new, b"old"), (new, newer)}
    assert store.read("old") == newer and not any("#" in name for name in names_in(tmp_path / str(steps)))


def test_half_written_temporary_is_never_an_object(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create("a/b", b"1")
    (tmp_path / "a/c#123").write_bytes(b"ha")
    assert list(store.names("a/")) == ["a/b"]
    assert store.read("a/c") is None
    assert store.create("a/c", b"whole") and store.read("a/c") == b"whole"


def test_stale_temporaries_are_removed_and_young_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name, age_s in (("x#1", STALE_AFTER_S + 60), ("y#2", 60.0), ("z", STALE_AFTER_S + 60)):
        (tmp_path / "a" / name).write_bytes(b"")
        since_s = (tmp_path / "a" / name).stat().st_mtime - age_s
        os.utime(tmp_path / "a" / name, (since_s, since_s))
    Store(tmp_path).create("a/b", b"1")
    assert names_in(tmp_path / "a") == ["b", "y#2", "z"]


def test_folder_that_was_removed_is_created_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create("a/b", b"1")
    (tmp_path / "a/b").unlink()
    (tmp_path / "a").rmdir()
    assert store.create("a/b", b"2") and store.read("a/b") == b"2"


def test_full_disk_leaves_no_temporary(tmp_path: Path) -> None:
    class Full(FileCalls):
        def sync(self, path: Path) -> None:
            if "#" in path.name:
                raise OSError(28, "No space left on device")

    store = Store(tmp_path, calls=Full())
    with pytest.raises(LogError, match=r"cannot be written: .*No space left on device; free space"):
        store.create("a/b", b"1")
    assert names_in(tmp_path / "a") == []


@pytest.mark.parametrize("name", ["../a", "a//b", "./a", "a/b#12", ""])
def test_name_that_is_no_objects_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an object"):
        LocalFolder(tmp_path, FileCalls()).create(name, b"")
