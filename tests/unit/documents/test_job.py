"""A job as it is submitted is refused with everything wrong with it, wherever that is seen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.document import check_document, format_place, parse_document
from holdfast.documents.job import Job
from holdfast.errors import DocumentError


def errors_of(text):
    with pytest.raises(DocumentError) as caught:
        parse_document(text, Job)
    return set(caught.value.errors)


def test_wrong_shape_masks_no_other_error():
    text = """host_kind: light
typo: 1
pes:
  x: {replicas: 0, lives_s: .nan}
  y: {replicas: two, reads: [5]}
policy: {restart: 7, backoff_s: -1, give_up_after: often}
feed: {speed: 0}
contract: {protection: prediction, retries: -1}
"""
    assert errors_of(text) == {
        "job (line 1): is missing",
        'pes.y.replicas (line 5): wanted a whole number, got "two"',
        "pes.y.reads[0] (line 5): wanted text, got 5",
        "policy.restart (line 6): wanted one of 'here', 'elsewhere', 'missing' or 'never', got 7",
        'policy.give_up_after (line 6): wanted a whole number, got "often"',
        "typo (line 2): is no field of this document; its fields are: adapt, application, contract, contracts, feed, host_kind, "
        "job, log, needs, out, pes, plan, policy, replicas, share, strategy, streams, sync, type",
        "feed.speed (line 7): wanted a number above 0, got 0.0",
        "contract.retries (line 8): wanted a number of at least 0, got -1",
        "policy.backoff_s (line 6): wanted a number of at least 0, got -1.0",
        "pes.x.replicas (line 4): wanted a number from 1 to 1000, got 0",
        "pes.x.lives_s (line 4): wanted a finite number, got NaN",
        "contract.deadline_s (line 8): is missing; prediction needs the seconds after its last input by which an epoch's output is "
        "due",
    }


def test_stream_of_another_job_names_that_job():
    assert errors_of("job: a\napplication: a.py\nlog: log\nstreams: {market: trades, news: 'b:'}\n") == {
        "streams.market (line 4): wanted 'job:stream', got \"trades\"",
        "streams.news (line 4): wanted 'job:stream', got \"b:\"",
    }


GOOD = {
    "job": "a",
    "host_kind": "light",
    "pes": {"x": {"makes": ["s"]}, "y": {"reads": ["s"]}},
    "policy": {},
    "feed": {},
    "contract": {},
    "needs": {"x": {}},
    "replicas": {"x": 2},
}
ERRORS = [
    (("job",), "a/b"),
    (("type",), 5),
    (("share",), True),
    (("typo",), 1),
    (("policy", "restart"), "often"),
    (("policy", "backoff_s"), -1),
    (("policy", "give_up_after"), "late"),
    (("feed", "speed"), 0),
    (("contract", "retries"), -1),
    (("contract", "secondary"), "loud"),
    (("contract", "reroute_after_s"), [1]),
    (("pes", "x", "replicas"), 0),
    (("pes", "x", "lives_s"), "long"),
    (("pes", "y", "reads", 0), "none"),
    (("needs", "x", "cores"), -1),
    (("needs", "x", "memory_mib"), True),
    (("replicas", "q"), 2),
    (("plan",), "plan.yaml"),
]


@given(st.sets(st.sampled_from(range(len(ERRORS))), min_size=1))
def test_exactly_the_errors_of_a_job_are_reported(chosen):
    data = json.loads(json.dumps(GOOD))
    for place, value in (ERRORS[number] for number in chosen):
        inner = data
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    with pytest.raises(DocumentError) as caught:
        check_document(data, Job)
    places = [error.split(": ")[0] for error in caught.value.errors]
    assert sorted(places) == sorted(format_place(ERRORS[number][0]) for number in chosen)


def test_unreadable_part_causes_no_further_errors():
    assert errors_of("job: a\nhost_kind: light\npes: 5\nreplicas: {x: 2}\nneeds: {y: {cores: -1}}\n") == {
        "pes (line 3): wanted a mapping, got 5",
        "needs.y.cores (line 5): wanted a number of at least 0, got -1.0",
    }
    assert errors_of("job: a\nhost_kind: light\npes: {x: 5, y: {reads: [s]}}\nreplicas: {x: 2}\npolicy: [here]\n") == {
        "pes.x (line 3): wanted a mapping, got 5",
        'policy (line 5): wanted a mapping, got ["here"]',
    }


def test_streams_of_light_pes_are_checked_together():
    text = """job: a
host_kind: light
pes:
  x: {reads: [none, "b:c:d"], makes: [s, "", ../../etc]}
  y: {makes: [s]}
  u: {reads: [w], makes: [v]}
  w: {reads: [v], makes: [w]}
  z: {shared: "b:", replicas: 2}
replicas: {q: 2}
contracts: {z: {}}
needs: {x/0: {cores: 1}, x/1: {cores: 1}}
"""
    name = "wanted a name of letters, digits, '_', '.', '-' (at most 100) for a stream, got"
    assert errors_of(text) == {
        f'pes.x.makes[1] (line 4): {name} ""',
        f'pes.x.makes[2] (line 4): {name} "../../etc"',
        "pes.x.reads[1] (line 4): wanted a stream of this job, or 'job:stream' of another, got \"b:c:d\"",
        "pes.y.makes[0] (line 5): stream 's' is produced by both 'x' and 'y'; give each its own",
        "pes.z.shared (line 8): wanted 'job:pe' and no other field; the other job defines them",
        "pes.x.reads[0] (line 4): PE 'x' reads stream 'none', which does not exist; streams are: , ../../etc, s, v, w",
        "pes (line 3): the PEs u, w form a cycle: they read one another's streams",
        "replicas.q (line 9): names PE 'q', which this job does not have; its PEs are: u, w, x, y",
        "contracts.z (line 10): names PE 'z', which this job does not have; its PEs are: u, w, x, y",
        "needs.x/1 (line 11): names PE 'x/1', which this job does not have; its PEs are: u, w, x, y",
    }


def test_light_job_rejects_fields_of_an_application():
    text = "job: a\nhost_kind: light\npes: {}\nplan: p.yaml\nstreams: {s: 'b:t'}\nlog: l\nout: o\nfeed: {trace: t, columns: c}\n"
    places = {error.split(" ")[0] for error in errors_of(text)}
    assert places == {"pes", "plan", "streams", "log", "out", "feed.trace", "feed.columns"}
