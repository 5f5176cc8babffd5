"""Campaign values that are chosen to fit the trace."""

import numpy as np
import pytest

from holdfast.assess.case import Case, OutageLocator, Tempo
from holdfast.assess.fitting import cases_reaching, cases_with_tuples, default_outages, default_section, spread_offsets
from holdfast.assess.source_rows import SourceRows
from holdfast.errors import HoldfastError

from .alert_graph import rare_alerts


class OfTrace:
    """A context of which only the source's rows are known."""

    def __init__(self, tuples, peak, step=1):
        seq = np.arange(0, tuples * step, step)
        self.rows = SourceRows(seq, seq, Tempo(peak / 2, peak), {}, {})


def test_default_outages_fit_half_of_the_trace(capsys):
    assert default_outages(OfTrace(999 * 5000, 2200.0)) == (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    assert capsys.readouterr().err == ""
    assert default_outages(OfTrace(300_000, 20_548.0)) == (0.5, 1.0, 2.0, 4.0)
    assert "skipping outages of 8, 16 s: at the peak rate they exceed half of the trace" in capsys.readouterr().err


def test_default_offsets_leave_room_for_every_case():
    graph, locator = rare_alerts()
    assert spread_offsets(graph, locator, {Case(("orders",)): 50}) == (5, 15, 25, 35, 45)
    assert spread_offsets(graph, locator, {Case(("orders",)): 50, Case(("alert",)): 2}) == (4, 12, 20, 28, 36)
    assert locator.locate(graph, Case(("alert",)), offset=36, tuples=2) == (36, 60)


def test_trace_without_room_for_an_outage_is_rejected():
    graph, locator = rare_alerts()
    with pytest.raises(HoldfastError, match="it takes 5 tuples from alert, which has 4; give shorter outages with --outage"):
        spread_offsets(graph, locator, {Case(("orders",)): 1, Case(("alert",)): 5})


def test_case_without_input_is_skipped_unless_requested(capsys):
    graph, locator = rare_alerts()
    silent = OutageLocator(locator.source, {**locator.streams, "large": np.zeros(0, np.int64)}, locator.tempo)
    assert cases_with_tuples(graph, [Case(("orders",)), Case(("alert",))], silent) == [Case(("orders",))]
    assert "skipped, because nothing reaches it on this trace: alert" in capsys.readouterr().err
    with pytest.raises(HoldfastError, match="alert gets no tuples after offset 5, so it has none to lose"):
        silent.locate(graph, Case(("alert",)), offset=5, tuples=1)


def test_case_without_output_is_skipped_with_that_reason(capsys):
    graph, locator = rare_alerts()
    silent = OutageLocator(locator.source, {**locator.streams, "large": np.zeros(0, np.int64)}, locator.tempo)
    cases = [Case(("large",)), Case(("large",), failover_s=1.0)]
    assert cases_with_tuples(graph, cases, silent) == cases[:1]
    assert "skipped, because nothing leaves it on this trace: large (replica, 1 s)" in capsys.readouterr().err


def test_case_off_the_path_to_the_sink_is_skipped(capsys):
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
def test_default_section_lets_the_longest_outage_fill_four(peak, step, section, capsys):
    assert default_section(OfTrace(1000, peak, step), 16.0) == section
    assert ("override with --section" in capsys.readouterr().err) == (section not in (5000, 999 * 5000))
