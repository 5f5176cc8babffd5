"""What `holdfast assess` makes of its options before and beside Spark."""

import contextlib
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from rich.progress import Progress

from holdfast.app import App
from holdfast.assess.campaign_fit import case_tempo
from holdfast.assess.campaign_setup import build_cases, parse_fault, read_rates
from holdfast.assess.case import Case, OutageLocator, Tempo
from holdfast.assess.fitting import cases_reaching, cases_with_tuples, default_outages, default_section, spread_offsets
from holdfast.assess.progress_display import LINE_EVERY_S, Bars, Lines, TimeLeft, show_progress
from holdfast.assess.source_rows import SourceRows
from holdfast.cli.assess import assess
from holdfast.errors import CompoundError, HoldfastError, TraceError
from holdfast.terminal import say

APPLICATION = """
from holdfast import App

app = App("orders")
orders = app.source("orders", "seq long, time timestamp, amount double")
large = app.operator(inputs=orders, name="large")(lambda rows: rows.where("amount > 9"))
small = app.operator(inputs=orders, name="small")(lambda rows: rows.where("amount <= 9"))
app.sink("out", large)
app.sink("rest", small)
"""


class OfTrace:
    """A context of which only the source's rows are known."""

    def __init__(self, tuples, peak, step=1):
        seq = np.arange(0, tuples * step, step)
        self.rows = SourceRows(seq, seq, Tempo(peak / 2, peak), {}, {})


@pytest.fixture
def explain(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)

    def run(*options):
        return CliRunner().invoke(assess, [str(tmp_path / "app.py"), "--explain", *options])

    return run


def test_a_group_without_a_target_in_it_is_also_tried_as_it_is_so_that_there_is_a_before():
    assert build_cases([("a",)], [("a", "b")], failover_s=2.0) == [Case(("a",)), Case(("a", "b"), 2.0)]
    assert build_cases([("a",)], [("b", "c")], failover_s=2.0) == [Case(("a",)), Case(("b", "c")), Case(("b", "c"), 2.0)]


def test_of_the_usual_outages_those_are_tried_that_half_of_the_trace_has_room_for(capsys):
    assert default_outages(OfTrace(999 * 5000, 2200.0)) == (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    assert capsys.readouterr().err == ""
    assert default_outages(OfTrace(300_000, 20_548.0)) == (0.5, 1.0, 2.0, 4.0)
    assert "skipping outages of 8, 16 s: at the peak rate they exceed half of the trace" in capsys.readouterr().err


def rare_alerts():
    """A graph, and 100 orders of which 4 reach `large`, the last of them at seq 60."""
    app = App("orders")
    orders = app.source("orders", "seq long, time timestamp, amount double")
    app.sink("out", app.operator(inputs=orders, name="large")(lambda rows: rows.where("amount > 9")))
    app.sink("shown", app.operator(inputs="large", name="alert")(lambda rows: rows))
    seqs = {"orders": np.arange(100), "large": np.array([10, 20, 40, 60])}
    return app.graph(), OutageLocator(seqs["orders"], seqs, Tempo(10.0, 20.0))


def test_offsets_are_spread_over_what_leaves_every_target_its_tuples_to_lose():
    graph, locator = rare_alerts()
    assert spread_offsets(graph, locator, {Case(("orders",)): 50}) == (5, 15, 25, 35, 45)
    assert spread_offsets(graph, locator, {Case(("orders",)): 50, Case(("alert",)): 2}) == (4, 12, 20, 28, 36)
    assert locator.locate(graph, Case(("alert",)), offset=36, tuples=2) == (36, 60)


def test_without_room_for_the_longest_outage_no_offset_is_made_up():
    graph, locator = rare_alerts()
    with pytest.raises(HoldfastError, match="it takes 5 tuples from alert, which has 4; give shorter outages with --outage"):
        spread_offsets(graph, locator, {Case(("orders",)): 1, Case(("alert",)): 5})


def test_what_nothing_reaches_is_left_out_unless_it_was_asked_for(capsys):
    graph, locator = rare_alerts()
    silent = OutageLocator(locator.source, {**locator.streams, "large": np.zeros(0, np.int64)}, locator.tempo)
    assert cases_with_tuples(graph, [Case(("orders",)), Case(("alert",))], silent) == [Case(("orders",))]
    assert "left out, because nothing reaches it on this trace: alert" in capsys.readouterr().err
    with pytest.raises(HoldfastError, match="alert gets no tuples after offset 5, so it has none to lose"):
        silent.locate(graph, Case(("alert",)), offset=5, tuples=1)


def test_what_tuples_reach_and_none_leaves_is_said_to_put_nothing_out(capsys):
    graph, locator = rare_alerts()
    silent = OutageLocator(locator.source, {**locator.streams, "large": np.zeros(0, np.int64)}, locator.tempo)
    cases = [Case(("large",)), Case(("large",), failover_s=1.0)]
    assert cases_with_tuples(graph, cases, silent) == cases[:1]
    assert "left out, because nothing leaves it on this trace: large (replica, 1 s)" in capsys.readouterr().err


def test_what_does_not_lead_to_the_scored_sink_is_left_out_unless_it_was_asked_for(capsys):
    graph, _ = rare_alerts()
    cases = [Case((name,)) for name in ("orders", "large", "alert")]
    assert cases_reaching(graph, cases, "out") == cases[:2]
    assert "do not lead to sink 'out', which is scored (--sink): alert" in capsys.readouterr().err
    assert cases_reaching(graph, [*cases, Case(("large", "alert"), 2.0)], "shown") == [*cases, Case(("large", "alert"), 2.0)]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("peak", "step", "section"),
    [(2200.0, 1, 5000), (64.0, 1, 200), (64.0, 10, 2000), (0.1, 1, 1), (500.0, 1, 2000), (2200.0, 1000, 999 * 5000)],
)
def test_a_section_is_the_papers_or_short_enough_for_the_longest_outage_to_fill_four(peak, step, section, capsys):
    assert default_section(OfTrace(1000, peak, step), 16.0) == section
    assert ("override with --section" in capsys.readouterr().err) == (section not in (5000, 999 * 5000))


PROFILE = """
application: orders
sources:
  orders: {rates: [{name: low, rate: 90, probability: 0.5}, {name: high, rate: 200, probability: 0.5}]}
pes:
  front: {operators: [large, alert], inputs: {orders: {selectivity: 0.1, cost: 0.001}}, rate: {average: 100, peak: 200}}
sinks: {out: {inputs: [front]}, shown: {inputs: [front]}}
nodes: {node1: {cores: 1}}
"""


def test_a_profile_gives_each_operator_its_own_rate_and_not_that_of_the_pe_it_is_in(tmp_path):
    (tmp_path / "orders.yaml").write_text(PROFILE)
    graph, locator = rare_alerts()
    context, rates = SimpleNamespace(graph=graph), read_rates(tmp_path / "orders.yaml", graph)

    def tempo(*target, failover_s=None):
        return case_tempo(context, locator, Case(target, failover_s), rates)

    assert tempo("orders") == tempo("large") == tempo("large", "alert") == Tempo(100.0, 200.0)
    assert tempo("alert") == tempo("large", failover_s=1.0) == Tempo(4.0, 8.0)  # of 100 orders 4 are large
    assert case_tempo(context, locator, Case(("alert",)), {}) == Tempo(0.4, 0.8)


def test_a_profile_of_another_application_is_refused(tmp_path):
    (tmp_path / "orders.yaml").write_text(PROFILE.replace("large", "huge").replace("application: orders", "application: shop"))
    with pytest.raises(HoldfastError, match=r"orders.yaml' is of application 'shop': it has huge, which this application"):
        read_rates(tmp_path / "orders.yaml", rare_alerts()[0])


def test_a_trace_that_is_not_there_is_told_before_spark_is_started(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    run = CliRunner().invoke(assess, [str(tmp_path / "app.py"), "--trace", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert isinstance(run.exception, TraceError) and "none' does not exist; make one with 'holdfast trace'" in str(run.exception)
    assert run.stderr == ""


def test_a_folder_that_cannot_take_results_is_told_before_anything_is_read(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("one")
    for out, said in (("app.py", "is a file; results need a folder"), ("thesis", "holds something that is no campaign")):
        there = str(tmp_path / "app.py")
        run = CliRunner().invoke(assess, [there, "--trace", there, "--out", str(tmp_path / out)])
        assert isinstance(run.exception, HoldfastError) and said in str(run.exception)
        assert run.stderr == ""


def test_figures_that_no_trace_makes_right_are_told_all_at_once_before_spark_is_started(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    there, out = str(tmp_path / "app.py"), str(tmp_path / "out")
    figures = ["--outage", "-1", "--offset", "-3", "--threshold", "nan", "--percentile", "7", "--golden", "2"]
    twice = ["--target", "large", "--target", "large"]
    run = CliRunner().invoke(assess, [there, "--trace", there, "--out", out, *figures, *twice, "--fault", "divergence,size=0"])
    assert isinstance(run.exception, CompoundError) and len(run.exception.errors) == 7
    assert "the target 'large' is given twice" in str(run.exception)
    assert run.stderr == "" and not (tmp_path / "out").exists()


def test_names_of_a_group_may_have_blanks_between_them(explain):
    assert explain("--target", "large, small").stdout == explain("--target", "large,small").stdout != ""


def test_injected_graphs_are_shown_in_words(explain):
    shown = explain("--target", "large", "--fault", "duplication")
    assert shown.exit_code == 0
    assert "* duplication before large on orders  <-  orders" in shown.stdout
    assert "large: a target, because orders also feeds small" in shown.stdout


def test_a_fault_may_strike_on_the_way_out_and_have_figures_of_its_own(explain):
    shown = explain("--target", "large", "--fault", "divergence,size=0.2,share=0.5", "--side", "output")
    assert "* divergence after large on large  <-  large" in shown.stdout
    assert parse_fault("reordering, distance=3") == {"kind": "reordering", "distance": 3}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", "there is no fault 'crash'; faults are: loss, duplication, reordering, divergence"),
        ("loss,share=1", "a loss has no 'share'; it has no parameters"),
        ("divergence,target=2", "a divergence has no 'target'; its parameters are: size, share"),
        ("duplication,share=most", "the share of a duplication is a number, got 'most'"),
        ("duplication,share=2", "affects a share of the tuples above 0 and up to 1, got 2"),
        ("reordering,distance=0", "a reordering fault moves tuples by a whole number of places, at least 1, got 0"),
        ("reordering,distance=2.5", "a reordering fault moves tuples by a whole number of places, at least 1, got 2.5"),
        ("reordering,distance=nan", "a reordering fault moves tuples by a whole number of places, at least 1, got nan"),
        ("divergence,size=inf", "a divergence fault changes values by more than 0 of themselves, and by a finite size, got inf"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(explain, fault, said):
    assert said in str(explain("--fault", fault).exception)


def test_a_trace_is_asked_for(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    run = CliRunner().invoke(assess, [str(tmp_path / "app.py")])
    assert "assess needs a recorded trace; give its file or folder with --trace" in str(run.exception)


def test_injected_graphs_are_shown_as_one_json_document(explain):
    shown = json.loads(explain("--json", "--protect", "small").stdout)
    assert [graph["case"] for graph in shown["graphs"]] == ["orders", "large", "small", "small (replica, 2 s)"]
    put_in = [node for node in shown["graphs"][3]["nodes"] if node["injected"]]
    assert put_in == [{"name": "loss after small on small", "reads": ["small"], "injected": True, "node": "operator"}]
    assert {choice["name"]: choice["chosen"] for choice in shown["choices"]} == {"orders": True, "large": True, "small": True}


def test_progress_tells_the_time_left_now_and_then_and_always_the_end():
    said, times = [], iter([0.0, 1.0, 1.0 + LINE_EVERY_S, 12.0])
    lines = Lines(lambda: next(times), said.append)
    for done in (10, 20, 32, 40):
        lines("trials", done, 40)
    assert said == ["trials: 10 of 40", "trials: 32 of 40, about 4 s left", "trials: 40 of 40"]


def test_the_time_left_on_a_terminal_follows_from_the_first_step_on_and_falls_between_steps():
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    bar = Progress()
    told = Bars(bar, lambda: now[0])

    def shown(at_s):
        now[0] = at_s
        return str(left.render(bar.tasks[0]))

    told("trials", 10, 40)
    assert shown(1.0) == "-:--:-- left"
    now[0] = 100.0
    told("trials", 20, 40)
    assert [shown(at_s) for at_s in (100.0, 160.0, 400.0)] == ["0:03:20 left", "0:02:20 left", "0:00:00 left"]
    told("trials", 40, 40)
    assert shown(401.0) == ""


def test_what_is_said_while_a_bar_is_shown_stands_on_a_line_of_its_own(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.openpty()
    written = b""
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with show_progress() as told:
            told("reading", 0, 2)
            say("using sections of 500 seqs")
    with os.fdopen(reader, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # which is how a terminal ends
        while chunk := screen.read(65536):
            written += chunk
    before = written.decode().partition("using sections of 500 seqs")[0]
    assert "0/2" in before and before.endswith("\x1b[2K")  # the line is wiped


def test_progress_of_something_new_is_told_at_once():
    said, times = [], iter([0.0, 1.0, 2.0, 2.5])
    lines = Lines(lambda: next(times), said.append)
    for what, done in (("preparing", 0), ("preparing", 3), ("trials", 0), ("trials", 1)):
        lines(what, done, 3)
    assert said == ["preparing: 0 of 3", "preparing: 3 of 3", "trials: 0 of 3"]
