"""A campaign with outcomes that are small enough to assess by hand."""

import numpy as np

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.targets import Choice

SECTIONS = 20


CHOICES = (Choice("loud", ("it is a source",)), Choice("quiet", ("it reads 2 streams",)), Choice("calm", (), like="loud"))


def campaign(**changes):
    values = {
        "subject": {"application": "shop"},
        "cases": (Case(("loud",)), Case(("quiet",)), Case(("loud", "quiet"), 1.0)),
        "offsets": (1000, 1500),
        "outages_s": (1.0, 2.0),
        "paces": ("peak",),
        "repetitions": 2,
        "golden_runs": 2,
        "scores": ("sum(x)", "count(x)"),
        "sink": "out",
        "section": 100,
    }
    return Campaign(**values | changes)


def facts(**changes):
    names = [case.name for case in campaign().cases]
    values = {
        "sections": SECTIONS,
        "origin": 0,
        "deterministic": False,
        "why_slow": None,
        "source": {"tuples": 2000, "average": 50.0, "peak": 100.0},
        "rates": {name: {"average": 50.0, "peak": 100.0} for name in names},
        "tuples": {name: {"1 peak": 100, "2 peak": 200} for name in names},
        "firsts": {"1000": 1000, "1500": 1500},
        "affected": {name: {o: [{"sum(x)": 400.0, "count(x)": 40.0}] * 2 for o in ("1000", "1500")} for name in names},
    }
    return values | changes


def golden():
    run = {"sum(x)": [100.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    return {"runs": [run, run]}


def outcomes(of=None):
    """loud: from its offset on 2 or 4 sections score 150 too much. quiet: 1 or 2 sections are lost."""
    result = {}
    for trial in (of or campaign()).trials():
        begin, length = trial.offset // 100, int(trial.outage_s)
        if trial.case == "loud":
            sections, size = np.arange(begin, begin + 2 * length), 150.0
        else:
            sections, size = np.arange(begin, begin + length), -100.0
        if "replica" in trial.case:
            sections, size = sections[:1], 20.0
        differences = {"sum(x)": np.full(len(sections), size), "count(x)": np.zeros(len(sections))}
        result[trial] = TrialOutcome(sections, differences)
    return result
