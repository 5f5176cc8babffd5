import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.app.writers import WriteToken
from holdfast.connectors.delta_writer import DeltaWriter
from holdfast.errors import HoldfastError


def token(epoch, kind="first", claim=1, run="run"):
    return WriteToken(run, epoch, kind, claim)


def rows(*values):
    return pa.table({"value": pa.array(values, pa.int64())})


def content(path):
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    return sorted(zip(table["epoch"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def test_correction_replaces_exactly_its_epoch(path):
    write = DeltaWriter(path)
    write(rows(1, 2), 5, "tentative", token=token(5))
    write(rows(3), 6, "exact", token=token(6))
    write(rows(7), 5, "exact", token=token(5, "final", 2))
    assert content(path) == [(5, 7), (6, 3)]


def test_epoch_is_written_once_by_several_replicas(path):
    for _ in range(2):
        DeltaWriter(path)(rows(1), 5, "exact", token=token(5))
    assert content(path) == [(5, 1)]


def test_empty_correction_removes_the_rows_of_its_epoch(path):
    DeltaWriter(path)(rows(1), 5, "tentative", token=token(5))
    DeltaWriter(path)(rows(), 5, "exact", token=token(5, "final", 2))
    assert content(path) == []


def test_stalled_writer_cannot_add_its_rows_after_its_successor(path, monkeypatch):
    DeltaWriter(path)(rows(0), 4, "exact", token=token(4))
    write = deltalake.write_deltalake
    stalls = [True]

    def stall_and_write(*arguments, **named):
        if stalls.pop() if stalls else False:  # the successor writes the epoch and its correction while this one is stopped
            DeltaWriter(path)(rows(2), 5, "tentative", token=token(5, claim=2))
            DeltaWriter(path)(rows(3), 5, "exact", token=token(5, "final", 3))
        write(*arguments, **named)

    monkeypatch.setattr(deltalake, "write_deltalake", stall_and_write)
    DeltaWriter(path)(rows(1), 5, "tentative", token=token(5))
    assert content(path) == [(4, 0), (5, 3)]


class Killed(BaseException):
    pass


@settings(max_examples=25)
@given(kills=st.lists(st.sampled_from(["before", "after", "no"]), min_size=6, max_size=6))
def test_kill_before_or_after_the_commit_loses_and_repeats_nothing(kills, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("delta") / "table")
    write = deltalake.write_deltalake
    writes = [(1, "first"), (2, "first"), (1, "final"), (3, "first"), (2, "final"), (4, "first")]
    with pytest.MonkeyPatch.context() as patched:
        for (epoch, kind), kill in zip(writes, kills, strict=True):

            def write_or_die(*arguments, kill=kill, **named):
                if kill == "before":
                    raise Killed
                write(*arguments, **named)
                if kill == "after":
                    raise Killed

            patched.setattr(deltalake, "write_deltalake", write_or_die)
            value = rows(epoch * 10 + (kind == "final"))
            try:
                DeltaWriter(path)(value, epoch, "exact", token=token(epoch, kind))
            except Killed:
                patched.setattr(deltalake, "write_deltalake", write)
                DeltaWriter(path)(value, epoch, "exact", token=token(epoch, kind, claim=2))
    assert content(path) == [(1, 11), (2, 21), (3, 30), (4, 40)]


def test_other_columns_are_an_error_that_names_the_table(path):
    DeltaWriter(path)(rows(1), 5, "exact", token=token(5))
    with pytest.raises(HoldfastError, match=rf"the Delta table '{path}' has other columns than the sink"):
        DeltaWriter(path)(pa.table({"other": ["x"]}), 6, "exact", token=token(6))


def test_unwritable_table_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError, match=r"the Delta table '.*/file/table' cannot be written"):
        DeltaWriter(str(tmp_path / "file" / "table"))(rows(1), 5, "exact", token=token(5))


def test_writer_whose_table_was_taken_over_fails(path):
    write = DeltaWriter(path)
    write(rows(1), 5, "exact", token=token(5))
    DeltaWriter(path)(rows(2), 6, "exact", token=token(6, run="other"))
    with pytest.raises(HoldfastError, match=r"is also written by another sink or job, which has taken it over; give each its own"):
        write(rows(3), 7, "exact", token=token(7))
    assert content(path) == [(5, 1), (6, 2)]
