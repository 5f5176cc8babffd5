"""The states of queries in the log: what a save uploads, what another node restores, and what is removed."""

import json
from types import SimpleNamespace

import pytest

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.runtime.query_checkpoints import QueryCheckpoints


class Replica:
    """A replica with a checkpoint folder as Spark writes it: a file per batch, and state files that are purged later."""

    def __init__(self, store, folder, position=None):
        self.store, self.checkpoints, self.path = store, Checkpoints(store), folder / "checkpoint"
        self.saved = QueryCheckpoints(store, "query/0", self.checkpoints)
        self.batch = -1
        if position is not None:
            self.saved.restore(position, folder)
            self.batch = max(int(path.name) for path in (self.path / "commits").iterdir())

    def run(self, *, batches=1, purge_before=0):
        for _ in range(batches):
            self.batch += 1
            for name in ("offsets", "commits", "state/0/0"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
                (self.path / name / f"{self.batch}").write_text(f"{name} {self.batch}")
                (self.path / name / f".{self.batch}.crc").write_text("")
        for path in self.path.rglob("*"):
            if path.is_file() and path.name.isdigit() and int(path.name) < purge_before:
                path.unlink()

    def save(self):
        query = SimpleNamespace(checkpoint=self.path, batch=self.batch)
        position = Position(self.batch, self.saved.save(query, self.batch))
        self.checkpoints.save("query/0", position)
        return position

    def content(self):
        files = (path for path in self.path.rglob("*") if path.is_file() and path.suffix != ".crc" and path.name != "metadata")
        return {str(path.relative_to(self.path)): path.read_text() for path in files}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "log", sync=False)


def objects(store):
    return sorted(store.names("queries/"))


def test_another_node_continues_with_the_saved_files(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run(batches=3)
    replica.save()
    replica.run(batches=2, purge_before=1)
    replica.save()
    other = Replica(store, tmp_path / "two", replica.checkpoints.latest("query/0"))
    assert other.content() == replica.content()
    assert other.batch == 4


def test_save_uploads_only_new_files_and_removes_unused_objects(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run(batches=3)
    replica.save()
    replica.run()
    position = replica.save()
    first, second = objects(store)
    held = position.kept_rows["files of the query"].to_pylist()
    assert {row["name"] for row in held if row["object"] == second} == {"offsets/3", "commits/3", "state/0/0/3"}
    replica.run(purge_before=3)
    replica.save()  # the save before needs the first object
    assert first in objects(store)
    replica.run()
    replica.save()
    assert first not in objects(store) and second in objects(store)


def test_replica_uploads_again_what_another_one_has_removed(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run(batches=2)
    other = Replica(store, tmp_path / "two", replica.save())
    other.run()
    other.save()
    for _ in range(3):
        replica.run(purge_before=replica.batch)
        replica.save()
    other.run(batches=4)
    restored = Replica(store, tmp_path / "three", other.save())
    assert restored.content() == other.content()


def test_file_of_an_unfinished_batch_is_not_saved(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run()
    (replica.path / "offsets" / "1").write_text("a batch that failed")
    position = replica.save()
    assert "offsets/1" not in position.kept_rows["files of the query"]["name"].to_pylist()


def test_large_state_is_stored_as_several_objects(store, tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.engine.query.query_folder.PACK_BYTES", 20)
    replica = Replica(store, tmp_path / "one")
    replica.run(batches=4)
    position = replica.save()
    assert len(objects(store)) > 3
    assert Replica(store, tmp_path / "two", position).content() == replica.content()


def test_missing_object_is_named(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run()
    position = replica.save()
    store.remove(objects(store))
    with pytest.raises(HoldfastError, match=r"object 'queries/.*' of the log at .* is missing, so that the query"):
        Replica(store, tmp_path / "two", position)


def test_restored_query_has_an_identity_of_its_own(store, tmp_path):
    replica = Replica(store, tmp_path / "one")
    replica.run()
    position = replica.save()
    (replica.path / "metadata").write_text(json.dumps({"id": "one"}))
    assert not (Replica(store, tmp_path / "two", position).path / "metadata").exists()  # a QueryRun writes a new one
