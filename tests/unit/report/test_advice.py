"""The page of an advice: what it says, and that every figure leads to the trials that made it."""

import re

import numpy as np
import pytest

from holdfast.advise.advice import Advice, weigh
from holdfast.advise.budget import Budget
from holdfast.advise.candidate import Candidate
from holdfast.advise.loss import alone, losses_of, protected_case
from holdfast.advise.verify import Kill, Stated, Verified
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.assess.metrics import Dependency
from holdfast.assess.score import score_of
from holdfast.assess.target import Choice
from holdfast.report.advice import advice_page
from holdfast.run.checkers import Verdict

EVERYTHING = ("read<r>", "count", "idle")
CHOICES = [Choice("read<r>", ("a source",)), Choice("count", ("stateful",)), Choice("idle", ("reads two streams",))]


def view(case, *impacts):
    none = np.zeros(1)
    offsets = tuple(OffsetView(1000 * (k + 1), (0.5,), none, none, 0, none, 2, impact) for k, impact in enumerate(impacts))
    repeated = tuple((0.5, 0.25) for _ in impacts)
    return CaseView(case, ((8.0, "peak"),), (4000,), 1.0, Dependency(0.1, True, 0.9), 2, max(impacts), offsets, repeated, 1)


def tried(*views):
    subject = {"application": "line"}
    cases = tuple(Case((each.case,)) for each in views)
    settings = {"offsets": (1000, 2000), "outages_s": (8.0,), "paces": ("peak",), "repetitions": 2, "golden_runs": 2}
    campaign = Campaign(subject=subject, cases=cases, scores=("sum(x)",), sink="out", section=100, **settings)
    return campaign, Assessment(score_of("out", "sum(x)"), views, (1.0,), 0.0, False)


@pytest.fixture
def text():
    """Two plans of one replica each. Under the second, all that is left open is one operator, whose case both campaigns have."""
    first = tried(view("read<r>", 2.0, 4.0), view("count", 60.0, 30.0))
    over = [view(protected_case(name, failover_s=1.0).name, 1.0, 0.5) for name in ("count", "read<r>")]
    second = tried(*over, view("read<r>+idle", 2.5, 4.5), view("count", 61.0, 31.0))
    single = alone(CHOICES, losses_of(first[1].cases))
    measured = losses_of(second[1].cases)
    measured["count+idle"] = measured["count"]
    plans = [
        weigh(Candidate(how, (who,)), single, measured, EVERYTHING, failover_s=1.0)
        for how, who in (("measured", "count"), ("of", "read<r>"))
    ]
    advice = Advice(
        application="line", budget=Budget(replicas=1), outage_s=8.0, failover_s=1.0, single=single, weighed=tuple(plans),
        why=dict.fromkeys(EVERYTHING, "a < b"), cpu={"read<r>": 0.1, "count": 0.3}, tasks=dict.fromkeys(EVERYTHING, 1),
        kept=frozenset({"measured", "of"}),
        failing_over={name: measured[f"{name} (replica, 1 s)"] for name in ("count", "read<r>")},
    )  # fmt: skip
    kills = (
        Kill(("count",), 12.0, True, 8, 0, 1.0, Stated(True, 0.25, 0.5)),
        Kill(("read<r>",), 20.0, True, 8, 2, 0.4, Stated(False, 0.25, 0.5)),
        Kill(("idle",), float("inf"), False, 0, 0, None, Stated(False, 1.0, 1.0)),
    )
    verified = Verified(kills, (Verdict("nothing lost", True, "24 epochs of 1 sink"),))
    return advice_page(advice, {"single": first, "together-1": second}, ["strategy.json is an alternative."], verified)


def test_it_says_what_to_protect_what_that_costs_and_what_is_left(text):
    assert "<p>Protect count.</p>" in text
    assert "That is 1 replica, 0.3 CPU seconds a second at average rates: 75% of what replicating everything takes." in text
    assert "<p>strategy.json is an alternative.</p>" in text
    assert "The next replica should be of read&lt;r&gt;, for 25% more of full replication's CPU." in text


def rows_of(text):
    return [cells for row in re.findall(r"<tr>(.*?)</tr>", text) if (cells := re.findall(r"<td[^>]*>(.*?)</td>", row))]


def test_real_kills_stand_beside_what_the_trials_stated(text):
    kills = [cells for cells in rows_of(text) if len(cells) == 7]
    assert kills == [
        ["count", "yes", "12", "0 of 8", "1", '<a href="#trials-2">0.25 to 0.5</a>', "yes"],
        ["read&lt;r&gt;", "no", "20", "2 of 8", "0.4", '<a href="#trials-0">0.25 to 0.5</a>', "yes"],
        ["idle", "no", "", "nobody noticed", "", "1 to 1", "shows nothing"],
    ]
    assert "Real kills: the promise did NOT hold. The run can be looked at again: holdfast ui verify/run" in text
    assert "24 epochs of 1 sink" in text


def test_the_spread_over_seeds_leads_to_the_trials_that_were_furthest_apart(text):
    assert 'quality differed by at most <a href="#trials-1">0.25</a> at any offset' in text


def test_every_link_leads_to_one_place_of_the_page_or_to_a_folder_of_trials(text):
    places = re.findall(r' id="([^"]+)"', text)
    assert len(places) == len(set(places))
    links = re.findall(r'href="([^"]+)"', text)
    assert {link for link in links if not link.startswith("#")} == {"single/report.html", "together-1/report.html"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(places)


def test_a_figure_leads_to_the_trials_that_it_was_computed_from(text):
    captions = dict(re.findall(r'<h3 id="(trials-\d+)">([^:]+):', text))
    assert list(captions.values()) == [
        "read&lt;r&gt;",
        "count",
        "count (replica, 1 s)",
        "read&lt;r&gt; (replica, 1 s)",
        "read&lt;r&gt;+idle",
        "count",
    ]
    lines = {cells[0]: cells for cells in rows_of(text) if len(cells) < 7}
    assert lines["measured: the costliest failures (chosen)"][3] == '<a href="#trials-4">3.5</a> (2.5 to 4.5)'
    assert lines["output fidelity (PPA)"][3] == '<a href="#trials-5">46</a> (31 to 61)', "of the second campaign, not of the first"
    assert lines["count"][1:] == ['<a href="#trials-2">0.75</a> (0.5 to 1)', '<a href="#trials-1">45</a> (30 to 60)']
    assert lines["idle"][1:] == ["0 (0 to 0)", "0 (0 to 0)"], "there were no trials of what has no tuples to lose"


def test_on_a_phone_every_cell_says_what_it_is(text):
    assert all("data-column=" in cell for cell in re.findall(r"<td[^>]*>", text))
