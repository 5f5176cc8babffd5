"""Rate traces."""

import pytest

from holdfast.errors import TraceError
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.simulate import (
    read_rates,
    steady_rates,
)


def test_rate_traces_are_read_and_checked(tmp_path):
    descriptor = figure_1()
    path = tmp_path / "rates.csv"
    path.write_text("time_s,source\n0,4\n2,8\n4,4\n")
    trace = read_rates(path, descriptor)
    assert (trace.interval_s, trace.seconds, trace.rates[1, 0]) == (2.0, 6.0, 8.0)
    path.write_text("\ufefftime_s, source\n0, 4\n1, 8\n", encoding="utf-8")  # as a spreadsheet writes it
    assert read_rates(path, descriptor).rates.ravel().tolist() == [4.0, 8.0]
    for text, message in (
        ("time_s,market\n0,4\n", "missing: source; its first line has: time_s, market"),
        ("time_s;source\n0;4\n", "separated by commas; missing: time_s, source; its first line has: time_s;source"),
        ("time_s,source,source\n0,4,5\n", "there twice: source"),
        ("time_s,source\n", "has 0 rows below its header, wanted 1 to 10,000,000"),
        ("", "its first line has: nothing"),
        ("time_s,source\n0,4\n1,4,5\n", "row 2 has more than the 2 columns"),
        ("time_s,source\n0,many\n1\n", r"numbers from 0 to 1e\+12; source in row 1 is 'many', source in row 2 is ''"),
        ("time_s,source\n" + "0,x\n" * 8, "source in row 5 is 'x' and 3 more"),
        ("time_s,source\n0,4\n1,4\n5,4\n", "times that ascend evenly"),
        ("time_s,source\n0,-4\n", "source in row 1 is '-4'"),
        ("time_s,source\n0,nan\n", "source in row 1 is 'nan'"),
        ("time_s,source\n0,1e300\n", "source in row 1 is '1e300'"),
        ("time_s,source\n0,4\ninf,4\n", "time_s in row 2 is 'inf'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=message):
            read_rates(path, descriptor)
    with pytest.raises(TraceError, match="there is no rate trace"):
        read_rates(tmp_path / "none.csv", descriptor)
    with pytest.raises(TraceError, match="has no configuration 'medium'; it has: high, low"):
        steady_rates(descriptor, "medium")
