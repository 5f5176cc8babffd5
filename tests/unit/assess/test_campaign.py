"""Campaigns as values: their trials, their document, and the errors in them."""

import json
from dataclasses import replace

import pytest

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.errors import CompoundError, HoldfastError

from .small_campaign import campaign


def test_campaign_has_every_combination_once():
    trials = list(campaign().trials())
    assert len(trials) == len(set(trials)) == campaign().size == 2 * 2 * 2 * 2 * 2


def test_campaign_survives_json_with_its_identity():
    one = campaign()
    other = Campaign.of(json.loads(json.dumps(one.document())))
    assert other == one
    assert other.identity == one.identity != campaign(seed=2).identity
    apart = replace(one, cases=(replace(one.cases[0], at_once=True), *one.cases[1:]))
    assert Campaign.of(json.loads(json.dumps(apart.document()))) == apart
    assert apart.identity != one.identity


def test_all_errors_of_a_campaign_are_reported_together():
    with pytest.raises(HoldfastError) as raised:
        campaign(
            offsets=(-1,), outages_s=(0.0,), paces=("slow",), repetitions=5, golden_runs=1, percentile=2, fault={"kind": "fire"}
        )
    message = str(raised.value)
    assert "an offset counts source tuples from 0, got -1" in message
    assert "an outage lasts more than 0 seconds, got 0" in message
    assert "a rate is 'average' or 'peak', got 'slow'" in message
    assert "there must be at least as many golden runs as repetitions (5), got 1" in message
    assert "the percentile lies above 0 and up to 1, got 2" in message
    assert "unknown kind 'fire'" in message


def test_duplicate_and_infinite_values_are_rejected():
    with pytest.raises(HoldfastError) as raised:
        campaign(
            offsets=(10, 10),
            outages_s=(1.0, float("inf"), 1.0),
            scores=("count(*)", "count(*)"),
            jitter=-1,
            seed=-2,
            affected=0,
        )
    message = str(raised.value)
    assert "the offset '10' is given twice" in message
    assert "the outage '1.0' is given twice" in message
    assert "the score 'count(*)' is given twice" in message
    assert "an outage lasts more than 0 seconds, got inf" in message
    assert "arrival order can be jittered by 0 to 127 tuples, got -1" in message
    assert "the seed must not be negative, got -2" in message
    assert "a fault affects at least 1 source tuple, got 0" in message
    with pytest.raises(HoldfastError, match="a failover takes more than 0 seconds, got -1"):
        Case(("a",), -1.0)


def test_campaign_of_output_faults_survives_json():
    out = campaign(
        cases=(Case(("a",), loses="output"), Case(("a", "b"), 2.0, "output")),
        fault={"kind": "divergence", "size": 0.2, "side": "output"},
    )
    assert Campaign.of(json.loads(json.dumps(out.document()))) == out
    assert out.fault_for(out.cases[0], offset=3, tuples=4).document() == {
        "kind": "divergence",
        "target": ["a"],
        "offset": 3,
        "tuples": 4,
        "side": "output",
        "seed": 1,
        "size": 0.2,
        "share": 1.0,
    }
    with pytest.raises(CompoundError, match="the fault affects the output of its targets, but the case 'a' loses its input"):
        campaign(fault={"kind": "loss", "side": "output"})
    with pytest.raises(CompoundError, match="a duplication fault affects a share of the tuples above 0 and up to 1, got 3"):
        campaign(fault={"kind": "duplication", "share": 3})


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("inf"), float("nan")])
def test_useless_threshold_is_rejected(threshold):
    with pytest.raises(HoldfastError, match=rf"the threshold is a relative error above 0, such as 0\.03, got {threshold:g}"):
        campaign(threshold=threshold)
