"""A small campaign, with an outcome and facts for its results folder."""

import numpy as np

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.assess.outcome import TrialOutcome


def campaign(**changes):
    values = {
        "subject": {"application": "shop"},
        "cases": (Case(("a",)), Case(("a", "b"), 2.0)),
        "offsets": (10, 20),
        "outages_s": (1.0, 2.0),
        "repetitions": 2,
        "golden_runs": 3,
        "scores": ("count(*)",),
        "sink": "out",
    }
    return Campaign(**values | changes)


def outcome(total):
    return TrialOutcome(np.array([3, 4]), {"count(*)": np.array([total, 0.5])})


def facts(**changes):
    names = [case.name for case in campaign().cases]
    return {
        "sections": 1,
        "origin": 0,
        "deterministic": True,
        "why_slow": None,
        "source": {"tuples": 40, "seqs": 40, "average": 5.0, "peak": 10.0},
        "rates": {name: {"average": 5.0, "peak": 10.0} for name in names},
        "tuples": {name: {"1 average": 5, "2 average": 10, "1 peak": 10, "2 peak": 20} for name in names},
        "firsts": {"10": 10, "20": 20},
        "affected": None,
    } | changes
