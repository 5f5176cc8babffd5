"""The rack recordings, which are computed without Spark, equal the output of the datacenter monitor."""

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.app.load import load_app
from holdfast.engine import ByTime, build_whole_trace, open_trace, with_epochs
from holdfast.trace import write_servers
from holdfast_papers.isorc16.recordings import RACK_SINK, RACK_STATUS, generated_servers

EXAMPLE = Path(__file__).parents[4] / "examples" / "datacenter_monitor.py"
EPOCHS, SERVERS = 15, 40


def test_recorded_racks_have_every_number_of_the_monitors_sink(spark, tmp_path):
    path = tmp_path / "servers.parquet"
    write_servers(path, events=(EPOCHS + 2) * SERVERS, seed=3, servers=SERVERS)
    app = load_app(EXAMPLE)
    graph = app.graph()
    sources = with_epochs(open_trace(spark, graph, str(path)), ByTime(app.epoch_s))
    streams = build_whole_trace(graph, sources)
    _, racks = generated_servers(3, epochs=EPOCHS, servers=SERVERS)
    recorded = pa.concat_tables(racks.epochs).to_pandas().set_index("seq")
    for stream, numbers in (("rack_status", RACK_STATUS), ("rack_heat", RACK_SINK)):
        rows = streams[stream].toPandas().set_index("seq")
        assert set(rows.columns) == {"epoch", "rack", *numbers}
        for number in numbers:
            assert recorded[number].to_numpy() == pytest.approx(rows.loc[recorded.index, number].to_numpy(), abs=1e-9)
