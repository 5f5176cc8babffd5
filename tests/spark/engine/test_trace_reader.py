"""Opening a recorded trace, and what is said of one that is not what the application reads."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.app import App
from holdfast.engine.trace_reader import open_trace, opened_trace
from holdfast.errors import TraceError

SCHEMA = "seq long, time timestamp, ticker string, price double"
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)


def graph_of(*sources: str, schema: str = SCHEMA):
    app = App("market")
    for source in sources or ("trades",):
        app.sink(f"{source}_out", app.source(source, schema))
    return app.graph()


def rows(seqs, **columns) -> pa.Table:
    count = len(seqs)
    return pa.table(
        {
            "seq": pa.array(seqs, pa.int64()),
            "time": pa.array([NOON] * count, pa.timestamp("us", tz="UTC")),
            "ticker": pa.array(["A"] * count, pa.string()),
            "price": pa.array([1.5] * count, pa.float64()),
            **columns,
        }
    )


def written(folder: Path, table: pa.Table, name: str = "trades.parquet", **settings) -> str:
    pq.write_table(table, folder / name, **settings)
    return str(folder / name)


def refused(spark, path, *sources, **settings) -> str:
    with pytest.raises(TraceError) as caught:
        open_trace(spark, graph_of(*sources), str(path), **settings)
    return str(caught.value)


def test_source_has_exactly_the_columns_it_declares(spark, tmp_path):
    path = written(tmp_path, rows([1, 2], more=pa.array([1, 2])))
    frame = open_trace(spark, graph_of(), path)["trades"]
    assert frame.columns == ["seq", "time", "ticker", "price"]
    assert frame.count() == 2


def test_narrower_types_become_the_declared_ones(spark, tmp_path):
    table = rows([1], price=pa.array([2], pa.int32())).set_column(0, "seq", pa.array([7], pa.int32()))
    frame = open_trace(spark, graph_of(), written(tmp_path, table))["trades"]
    assert frame.select("seq", "price").collect() == [(7, 2.0)]
    assert dict(frame.dtypes)["seq"] == "bigint"


def test_missing_trace_is_reported(spark, tmp_path):
    assert refused(spark, tmp_path / "gone.parquet").endswith(
        "gone.parquet' does not exist; make one with 'holdfast trace', or check the path"
    )


def test_missing_columns_and_wrong_types_are_reported_together(spark, tmp_path):
    table = rows([1], price=pa.array(["cheap"])).drop_columns(["time", "ticker"])
    message = refused(spark, written(tmp_path, table))
    assert "has 3 errors:" in message
    assert "column 'time' (timestamp) is missing; the trace has: seq, price" in message
    assert "column 'ticker' (string) is missing" in message
    assert "column 'price' must be double, got string" in message


def test_errors_of_all_sources_are_reported_together(spark, tmp_path):
    written(tmp_path, rows([1]).drop_columns(["price"]), "bids.parquet")
    written(tmp_path, rows([1]).drop_columns(["ticker"]), "asks.parquet")
    message = refused(spark, tmp_path, "bids", "asks")
    assert "'price' (double) is missing" in message
    assert "'ticker' (string) is missing" in message


@pytest.mark.parametrize("where", ["file", "folder"])
def test_empty_trace_is_reported(spark, tmp_path, where):
    place = tmp_path if where == "file" else tmp_path / "trades.parquet"
    place.mkdir(exist_ok=True)
    path = written(place, rows([]))
    assert refused(spark, path if where == "file" else place).endswith("for source 'trades' is empty; there is nothing to run on")


def test_file_of_garbage_is_reported(spark, tmp_path):
    (tmp_path / "trades.parquet").write_bytes(b"this is no parquet" * 100)
    message = refused(spark, tmp_path / "trades.parquet")
    assert "trades.parquet' cannot be read for source 'trades': " in message
    assert "\n" not in message


def test_truncated_file_is_reported(spark, tmp_path):
    path = Path(written(tmp_path, rows(list(range(1, 5000)))))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "trades.parquet' cannot be read for source 'trades': " in refused(spark, path)


def test_file_with_damaged_pages_is_reported(spark, tmp_path):
    path = Path(written(tmp_path, rows(list(range(1, 5000))), compression="zstd"))
    damaged = bytearray(path.read_bytes())
    damaged[4:2000] = b"\xff" * 1996
    path.write_bytes(bytes(damaged))
    assert "trades.parquet' for source 'trades' cannot be read: " in refused(spark, path)


@pytest.mark.parametrize("name", ["trades.txt", "trades"])
def test_unknown_kind_of_file_is_reported(spark, tmp_path, name):
    (tmp_path / name).write_text("seq\n1\n")
    assert refused(spark, tmp_path / name).endswith(
        "has an unknown kind of file; wanted one of .parquet, .csv, .json, .jsonl, .ndjson, .orc"
    )


def test_several_sources_are_files_of_one_folder(spark, tmp_path):
    written(tmp_path, rows([1, 3]), "bids.parquet")
    (tmp_path / "asks.csv").write_text("seq,time,ticker,price\n2,2024-01-01T12:00:00,A,1.5\n")
    opened = open_trace(spark, graph_of("bids", "asks"), str(tmp_path))
    assert {name: frame.count() for name, frame in opened.items()} == {"bids": 2, "asks": 1}


def test_file_instead_of_a_folder_is_reported(spark, tmp_path):
    assert "must be a folder with a file per source, such as asks.parquet" in refused(
        spark, written(tmp_path, rows([1])), "bids", "asks"
    )


def test_missing_file_is_reported_with_existing_files(spark, tmp_path):
    written(tmp_path, rows([1]), "bids.parquet")
    assert refused(spark, tmp_path, "bids", "asks").endswith(
        "has no file for source 'asks', such as asks.parquet; it has bids.parquet"
    )


def test_two_files_for_one_source_are_reported(spark, tmp_path):
    written(tmp_path, rows([1]), "bids.parquet")
    written(tmp_path, rows([2]), "asks.parquet")
    (tmp_path / "asks.csv").write_text("seq,time,ticker,price\n2,2024-01-01T12:00:00,A,1.5\n")
    assert refused(spark, tmp_path, "bids", "asks").endswith(
        "has 2 files for source 'asks': asks.csv, asks.parquet; keep one of them"
    )


def test_wrong_suffix_is_reported_without_file_content(spark, tmp_path):
    message = refused(spark, written(tmp_path, rows([1]), "trades.csv"))
    assert "column 'seq' (bigint) is missing; the trace has: unprintable names" in message
    assert "PAR1" not in message


def test_missing_folder_is_reported_once(spark, tmp_path):
    assert refused(spark, tmp_path / "nix", "bids", "asks").endswith(
        "nix' does not exist; make one with 'holdfast trace', or check the path"
    )


@pytest.mark.parametrize(
    ("seqs", "message"),
    [
        ([1, 2, 5, 4, 6], "seq must ascend, but row 4 has seq 4 after 5"),
        ([1, 2, 2, 3], "seq must ascend, but row 3 has seq 2 after 2"),
        ([3, 1], "seq must ascend, but row 2 has seq 1 after 3"),
        ([1, None, 3], "has no seq in row 2; every row needs one"),
    ],
)
def test_descending_seq_is_reported_with_its_row(spark, tmp_path, seqs, message):
    assert refused(spark, written(tmp_path, rows(seqs))).endswith(message)


def test_seq_is_checked_across_batches(spark, tmp_path, monkeypatch):
    seqs = list(range(1, 3001))
    seqs[2000] = 2000
    path = written(tmp_path, rows(seqs), row_group_size=1000)
    assert refused(spark, path).endswith("seq must ascend, but row 2001 has seq 2000 after 2000")


@pytest.mark.parametrize(
    ("seqs", "message"),
    [
        ([1, 2, 2], "has 1 row whose seq another row has too; seq must ascend"),
        ([1, None, None], "has 2 rows without a seq; every row needs one"),
    ],
)
def test_duplicate_seq_in_a_folder_is_reported(spark, tmp_path, seqs, message):
    place = tmp_path / "trades.parquet"
    place.mkdir()
    written(place, rows(seqs), "part-0.parquet")
    assert refused(spark, place).endswith(message)


MAPPING = {
    "seq": "row_number() over (order by when, id)",
    "time": "timestamp_millis(when)",
    "ticker": "upper(symbol)",
    "price": "cast(price as double)",
}
FOREIGN = "id,when,symbol,price\n9,1704110400500,abc,2\n4,1704110400000,abd,1\n5,1704110400000,abc,3\n"


@pytest.mark.parametrize("copied", [False, True])
def test_foreign_csv_is_read_through_a_mapping_that_numbers_its_rows(spark, tmp_path, copied):
    (tmp_path / "foreign.csv").write_text(FOREIGN)
    scratch = tmp_path / "scratch" if copied else None
    frame = open_trace(spark, graph_of(), str(tmp_path / "foreign.csv"), columns={"trades": MAPPING}, scratch=scratch)["trades"]
    assert [tuple(row) for row in frame.orderBy("seq").select("seq", "ticker", "price").collect()] == [
        (1, "ABD", 1.0),
        (2, "ABC", 3.0),
        (3, "ABC", 2.0),
    ]
    assert frame.selectExpr("max(unix_millis(time))").first()[0] == 1704110400500
    assert dict(frame.dtypes)["seq"] == "bigint"
    if copied:
        assert all("scratch" in file for file in frame.inputFiles())


def test_mapping_of_an_unknown_source_column_is_reported(spark, tmp_path):
    (tmp_path / "foreign.csv").write_text(FOREIGN)
    message = refused(spark, tmp_path / "foreign.csv", columns={"trades": {**MAPPING, "volume": "1"}})
    assert (
        message
        == "the mapping names column 'volume', which source 'trades' does not have; its columns are: seq, time, ticker, price"
    )


def test_mapping_of_an_unknown_file_column_is_reported(spark, tmp_path):
    (tmp_path / "foreign.csv").write_text(FOREIGN)
    message = refused(spark, tmp_path / "foreign.csv", columns={"trades": {**MAPPING, "ticker": "name"}})
    assert "foreign.csv' cannot be read for source 'trades': [UNRESOLVED_COLUMN" in message


def test_mapping_may_leave_out_columns_of_the_file(spark, tmp_path):
    (tmp_path / "foreign.csv").write_text(FOREIGN)
    partly = {name: sql for name, sql in MAPPING.items() if name not in ("price", "ticker")}
    message = refused(spark, tmp_path / "foreign.csv", columns={"trades": partly})
    assert "column 'ticker' (string) is missing" in message
    assert "'price'" not in message


def test_seq_shared_by_two_sources_is_reported(spark, tmp_path):
    written(tmp_path, rows([1, 3, 5]), "bids.parquet")
    written(tmp_path, rows([2, 3, 5]), "asks.parquet")
    assert "has seq 3 in more than one source; seq must ascend over all sources" in refused(spark, tmp_path, "bids", "asks")


def test_seq_begins_at_zero_or_later(spark, tmp_path):
    assert refused(spark, written(tmp_path, rows([-1, 0]))).endswith("begins with seq -1; seq must be at least 0")


def lines(folder: Path, name: str, *texts: str) -> str:
    (folder / name).write_text("\n".join(texts) + "\n")
    return str(folder / name)


def test_json_lines_are_read(spark, tmp_path):
    row = '{"seq": 1, "time": "2024-01-01T12:00:00Z", "ticker": "A", "price": 1.5}'
    frame = open_trace(spark, graph_of(), lines(tmp_path, "trades.jsonl", row), scratch=tmp_path / "scratch")["trades"]
    assert [tuple(each) for each in frame.select("seq", "ticker", "price").collect()] == [(1, "A", 1.5)]
    assert dict(frame.dtypes)["time"] == "timestamp"


def test_column_that_cannot_be_parsed_is_named(spark, tmp_path):
    path = lines(tmp_path, "trades.csv", "seq,time,ticker,price", "1,2024-01-01T12:00:00Z,A,1.5", "2,noon,A,2.5")
    assert f"trace '{path}' cannot be read in column 'time': " in refused(spark, path, scratch=tmp_path / "scratch")


@pytest.mark.parametrize(("moment", "warned"), [("2024-01-01 12:00:00", True), ("2024-01-01T12:00:00+02:00", False)])
def test_times_without_a_zone_cause_a_warning(spark, tmp_path, capsys, moment, warned):
    path = lines(tmp_path, "trades.csv", "seq,time,ticker,price", f"1,{moment},A,1.5")
    with opened_trace(spark, graph_of(), path):
        pass
    assert (f"column 'time' of trace '{path}' has no time zone, such as in '{moment}'" in capsys.readouterr().err) == warned
