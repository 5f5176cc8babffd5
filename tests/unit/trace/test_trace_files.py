"""A trace file exists completely or not at all."""

import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from holdfast.errors import TraceError
from holdfast.trace import write_market
from holdfast.trace.trace_files import ROW_GROUP
from holdfast_papers.ppa.traffic_trace import write_traffic

BOTH = pytest.mark.parametrize("write", [write_market, write_traffic])


@BOTH
def test_existing_trace_is_kept_unless_forced(write, tmp_path):
    write(tmp_path / "t", events=10, seed=1)
    with pytest.raises(TraceError, match="exists already: use --force to replace it, or write elsewhere"):
        write(tmp_path / "t", events=20, seed=1)
    write(tmp_path / "t", events=20, seed=1, force=True)
    file = tmp_path / "t" / "locations.parquet" if write is write_traffic else tmp_path / "t"
    assert pq.read_metadata(file).num_rows > 10
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@BOTH
def test_missing_folder_is_named(write, tmp_path):
    with pytest.raises(TraceError, match=r"the folder .*nowhere of the trace t does not exist: create it, or write elsewhere"):
        write(tmp_path / "nowhere" / "t", events=10, seed=1)


@BOTH
def test_unwritable_folder_is_named(write, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(TraceError, match="of the trace t cannot be written to: choose another"):
        write(tmp_path / "t", events=10, seed=1)


def test_file_trace_does_not_replace_a_folder(tmp_path):
    with pytest.raises(TraceError, match=r"is a folder, and this trace is one file: name a file, such as .*trace\.parquet"):
        write_market(tmp_path, events=10, seed=1, force=True)


def test_folder_trace_does_not_replace_a_file(tmp_path):
    (tmp_path / "t").write_text("mine")
    with pytest.raises(TraceError, match=r"is a file, and this trace is a folder with locations\.parquet and incidents\.parquet"):
        write_traffic(tmp_path / "t", events=10, seed=1, force=True)
    assert (tmp_path / "t").read_text() == "mine"


def test_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "diary.txt").write_text("mine")
    with pytest.raises(TraceError, match=r"has other files than those of a trace \(diary\.txt\): name a new folder"):
        write_traffic(tmp_path / "t", events=10, seed=1, force=True)
    assert (tmp_path / "t" / "diary.txt").read_text() == "mine"


def test_empty_folder_may_become_the_trace(tmp_path):
    (tmp_path / "t").mkdir()
    write_traffic(tmp_path / "t", events=10, seed=1)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["incidents.parquet", "locations.parquet"]


@BOTH
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_interrupted_writing_leaves_nothing(write, error, tmp_path):
    def stop(rows):
        if rows > 100_000:
            raise error

    with pytest.raises(error):
        write(tmp_path / "t", events=500_000, seed=1, progress=stop)
    assert not list(tmp_path.iterdir())


@BOTH
def test_interrupted_writing_leaves_the_older_trace(write, tmp_path):
    write(tmp_path / "t", events=10, seed=1)

    def stop(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "t", events=500_000, seed=1, force=True, progress=stop)
    file = tmp_path / "t" / "locations.parquet" if write is write_traffic else tmp_path / "t"
    assert pq.read_metadata(file).num_rows == 10
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


FULL_DISK = """
import resource, signal, sys
from holdfast.errors import TraceError
from holdfast.trace import write_market
from holdfast_papers.ppa.traffic_trace import write_traffic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
write = {"market": write_market, "traffic": write_traffic}[sys.argv[1]]
try:
    write(sys.argv[2], events=1_000_000, seed=1)
except TraceError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["market", "traffic"])
def test_full_disk_is_explained_and_leaves_nothing(kind, tmp_path):
    process = subprocess.run([sys.executable, "-c", FULL_DISK, kind, tmp_path / "t"], capture_output=True, text=True, check=True)
    assert "no room for the trace" in process.stdout
    assert "nothing was written; free some space, give fewer --events or write elsewhere" in process.stdout
    assert not list(tmp_path.iterdir())


ENDLESS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
from holdfast.trace import write_market
write_market(sys.argv[1], events=10**12, seed=1, progress=lambda rows: print(rows, flush=True))
"""


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_process_leaves_no_partial_trace(death, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path / "t"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 2 * ROW_GROUP:
        pass
    process.send_signal(death)
    process.communicate()
    assert process.returncode != 0
    assert not (tmp_path / "t").exists()
    if death == signal.SIGINT:
        assert not list(tmp_path.iterdir())


def test_row_groups_have_one_size_whatever_the_blocks(tmp_path):
    write_market(tmp_path / "m", events=600_000, seed=1)
    write_traffic(tmp_path / "t", events=600_000, seed=1)
    for file in (tmp_path / "m", tmp_path / "t" / "locations.parquet"):
        metadata = pq.read_metadata(file)
        sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        assert sizes == [ROW_GROUP, ROW_GROUP, metadata.num_rows - 2 * ROW_GROUP]
