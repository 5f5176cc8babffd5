"""The page of an advice: what it says, and that every figure leads to the trials that made it."""

import re
from itertools import pairwise

import numpy as np
import pytest

from holdfast.advise.advice import Advice, measured_plan
from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import Candidate
from holdfast.advise.losses import losses_of, protected_case, single_losses
from holdfast.advise.verification import Kill, StatedCost, Verified
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.assess.metrics import Dependency
from holdfast.assess.output_score import score_of
from holdfast.assess.targets import Choice
from holdfast.report.advice import advice_page
from holdfast.trial.checkers import Verdict

UNITS = {name: (name,) for name in ("read<r>", "count", "idle")}
CHOICES = [Choice("read<r>", ("a source",)), Choice("count", ("stateful",)), Choice("idle", ("reads two streams",))]


def view(case, *impacts):
    one = np.ones(1)
    offsets = tuple(OffsetView(1000 * (k + 1), (0.5,), one + impact, one, 0, one, 2, impact) for k, impact in enumerate(impacts))
    repeated = tuple((0.5, 0.25) for _ in impacts)
    return CaseView(
        case,
        ((8.0, "peak"),),
        (4000,),
        1.0,
        Dependency(0.1, True, 0.9),
        2,
        max(impacts),
        offsets,
        repeated,
        1,
        (0.5,) * len(offsets),
    )


def case_named(name):
    target, replica, _ = name.partition(" (replica")
    return Case(tuple(target.split("+")), 1.0 if replica else None)


def tried(*views):
    subject = {"application": "line"}
    cases = tuple(case_named(each.case) for each in views)
    options = {"offsets": (1000, 2000), "outages_s": (8.0,), "paces": ("peak",), "repetitions": 2, "golden_runs": 2}
    campaign = Campaign(subject=subject, cases=cases, scores=("sum(x)",), sink="out", section=100, **options)
    return campaign, Assessment(score_of("out", "sum(x)"), views, (1.0,), 0.0, False)


@pytest.fixture
def text():
    """Two plans of one replica each. Under the second, all that is left open is one operator, whose case both campaigns have."""
    first = tried(view("read<r>", 2.0, 4.0), view("count", 60.0, 30.0))
    over = [view(protected_case((name,), failover_s=1.0).name, 1.0, 0.5) for name in ("count", "read<r>")]
    second = tried(*over, view("read<r>+idle", 2.5, 4.5), view("count", 61.0, 31.0))
    single = single_losses(CHOICES, losses_of(first[1].cases))
    measured = losses_of(second[1].cases)
    measured["count+idle"] = measured["count"]
    plans = [
        measured_plan(Candidate(how, (who,)), single, measured, units=UNITS, failover_s=1.0, completeness=0.25)
        for how, who in (("measured", "count"), ("of", "read<r>"))
    ]
    advice = Advice(
        application="line", budget=Budget(replicas=1), outage_s=8.0, failover_s=1.0, single=single, plans=tuple(plans),
        because=dict.fromkeys(UNITS, "a < b"), units=UNITS, reaching_goal=frozenset({"measured", "of"}), goal_ic=0.2,
        prices=Prices(dict.fromkeys(UNITS, 1), {"read<r>": 0.1, "count": 0.3, "idle": 0.0}),
        failing_over={name: measured[f"{name} (replica, 1 s)"] for name in ("count", "read<r>")},
    )  # fmt: skip
    kills = (
        Kill("count", 12.0, True, 8, 0, 1.0, StatedCost(True, 0.25, 0.5, 0.9), 1.0),
        Kill("read<r>", 20.0, True, 8, 2, 0.4, StatedCost(False, 0.25, 0.5, 5.0), 1.0),
        Kill("idle", None, False, 0, 0, None, StatedCost(False, 1.0, 1.0, 0.0), 1.0),
    )
    verified = Verified(kills, (Verdict("nothing lost", True, "24 epochs of 1 sink"),))
    return advice_page(advice, {"single": first, "together-1": second}, ["strategy.json is an alternative."], verified)


def test_page_states_protection_cost_and_remaining_loss(text):
    assert "<p>Protect count. It is the plan by measured losses. Of the" in text
    assert "That is 1 replica, 0.3 CPU seconds per second at average rates: 75% of the cost of full replication." in visible(text)
    assert "fails at once it costs 3.5 (2.5 to 4.5) s, with an internal completeness of 0.25 (requested: 0.2)." in visible(text)
    assert "<p>strategy.json is an alternative.</p>" in text
    assert "The next: read&lt;r&gt;, 1 replica, for 25% more of full replication's CPU." in visible(text)


def test_page_starts_with_the_plan(text):
    why = {cells[0]: cells[3] for cells in rows_of(text) if len(cells) == 4 and cells[2] in ("yes", "no")}
    assert why["count"].startswith("Protect it: its failure costs 45 s of output without a replica and 0.75 s with")
    assert why["count"].endswith("its replica takes 75% of full replication&#x27;s CPU. Measured: a &lt; b.")
    assert why["read&lt;r&gt;"].startswith(
        "Leave it without a replica: an internal completeness of 0.2 is reached without it, and its replica takes 25% of"
    )
    assert why["idle"].startswith("Leave it without a replica: its failure alone does not change the output. Measured: ")


def test_figures_link_to_their_sources(text):
    for figure in ("1", "0.3", "75%", "25%"):
        assert f'<a href="#cost">{figure}</a>' in text
    assert len(re.findall(r'<a href="#failing-alone">\d+\.\d%</a>', text)) == 2, "what is left now, and what would be next"
    assert '<h2 id="cost">' in text and '<a href="descriptor.yaml">' in text


def visible(text):
    """The text without its links."""
    return re.sub(r"</?a[^>]*>", "", text)


def rows_of(text):
    return [cells for row in re.findall(r"<tr>(.*?)</tr>", text) if (cells := re.findall(r"<td[^>]*>(.*?)</td>", row))]


def test_page_compares_real_kills_with_stated_costs(text):
    kills = [cells for cells in rows_of(text) if len(cells) == 8]
    assert kills == [
        ["count", "yes", "12", '<a href="verify/run/">0 of 8</a>', "1", "0", '<a href="#trials-2">0.25 to 0.5, 0.9 s</a>', "yes"],
        [
            "read&lt;r&gt;",
            "no",
            "20",
            '<a href="verify/run/">2 of 8</a>',
            "0.4",
            "4.8",
            '<a href="#trials-0">0.25 to 0.5, 5 s</a>',
            "yes",
        ],
        ["idle", "no", "", "the run was over", "", "", "1 to 1, 0 s", "shows nothing"],
    ]
    assert "Real kills: the promise did NOT hold. A kill may cost at most as many seconds of output as" in text
    assert "at most as many seconds of output" in text and "The run can be looked at again: holdfast ui verify/run" in text
    assert "24 epochs of 1 sink" in text
    assert "<p>Each kill ends all primaries of one PE or source, on nodes that stay up." in text


def test_bars_have_a_linear_axis_and_table_names(text):
    svg = text.partition("<svg")[2].partition("</svg>")[0]
    labels = [label.strip() for label in re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", svg)]
    ticks = sorted({float(label) for label in labels if re.fullmatch(r"[\d.]+", label)})
    assert ticks[0] == 0 and len(ticks) >= 4
    assert {round(after - before, 9) for before, after in pairwise(ticks)} == {ticks[1]}, "as far apart as their values"
    assert {"measured losses", "output fidelity", "(PPA)"} <= set(labels) and "of" not in labels


def test_spread_over_seeds_links_to_its_trials(text):
    assert 'Quality differed by at most <a href="#trials-1">0.25</a> between arrival orders at any offset' in text


def test_every_link_has_one_target(text):
    places = re.findall(r' id="([^"]+)"', text)
    assert len(places) == len(set(places))
    links = re.findall(r'href="([^"]+)"', text)
    assert {link for link in links if not link.startswith("#")} == {
        "single/report.html",
        "together-1/report.html",
        "descriptor.yaml",
        "topology.yaml",
        "verify/run/",
    }
    assert {link[1:] for link in links if link.startswith("#")} <= set(places)


def test_figure_links_to_its_own_trials(text):
    captions = dict(re.findall(r'<h3 id="(trials-\d+)">([^:]+):', text))
    assert list(captions.values()) == [
        "read&lt;r&gt;",
        "count",
        "count (replica, 1 s)",
        "read&lt;r&gt; (replica, 1 s)",
        "read&lt;r&gt;+idle",
        "count",
    ]
    lines = {cells[0]: cells for cells in rows_of(text.partition('id="cost"')[0]) if len(cells) < 7}
    assert lines["measured losses (chosen)"][3] == '<a href="#trials-4">3.5</a> (2.5 to 4.5)'
    assert lines["output fidelity (PPA)"][3] == '<a href="#trials-5">46</a> (31 to 61)', "of the second campaign, not of the first"
    assert lines["count"][1:] == ['<a href="#trials-2">0.75</a> (0.5 to 1)', '<a href="#trials-1">45</a> (30 to 60)']
    assert lines["idle"][1:] == ["0 (0 to 0)", "0 (0 to 0)"], "there were no trials of what has no tuples to lose"


def test_trial_headings_name_their_outage(text):
    assert "count: 4,000 tuples lost (8 s at the peak rate)" in text
    assert "count (replica, 1 s): 4,000 tuples lost (1 s at the peak rate)" in text


def test_column_of_means_is_named_so(text):
    assert "<th>lost when it fails alone (s)</th>" in re.sub(r"<th[^>]*>", "<th>", text)
    assert "Each is the mean over the offsets that were tried, followed by the least and the greatest in brackets." in visible(text)


def test_cells_are_labelled_on_narrow_screens(text):
    assert all("data-column=" in cell for cell in re.findall(r"<td[^>]*>", text))
