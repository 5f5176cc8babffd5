"""Whether trials may share jobs: put to the test on the beginning of the trace, both ways, one trial per course."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pyspark.sql import functions as F

from holdfast.assess.batched import FastWay
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext, Keying
from holdfast.assess.case import Case
from holdfast.assess.fault_reach import FaultPath
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.injection import Strike
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.whole_trace_trial import run_slow

SAMPLE = 20_000
"""Source tuples of the sample."""
CLOSE = 1e-6


def one_of_each(cases: Iterable[Case], courses: Mapping[str, FaultPath]) -> list[Case]:
    """A case of every course that faults take: the others would show the same."""
    found: dict[tuple[tuple[str, tuple[str, ...]], ...], Case] = {}
    for case in cases:
        found.setdefault(tuple(sorted(courses[case.name].edges.items())), case)
    return list(found.values())


def disagreement(
    setting: CampaignContext,
    campaign: Campaign,
    courses: Mapping[str, FaultPath],
    *,
    cases: Sequence[Case],
    step: Callable[[], None] = lambda: None,
) -> str | None:
    """What the two ways disagree about on a sample, or None where they agree. `step` is called after the sample's golden run
    and after each case.

    Two trials strike in the sample's middle, one shortly and one for long, in lanes side by side with each other.
    """
    sample = _beginning(setting)
    if not isinstance(sample.keying, Keying):
        return sample.keying
    streams = {stream for stream, _ in sample.kept_streams()} | {stream for case in cases for stream in courses[case.name].cut}
    way = FastWay(sample, sample.ground(sample.stream_seqs(streams)))
    golden = run_golden(sample, campaign.seed_of(0), outputs=True)
    step()
    rows = sample.rows.seq
    middle, tenth = len(rows) // 2, max(1, len(rows) // 10)
    bounds = [
        (int(rows[middle]), int(rows[middle + tenth // 10])),
        (int(rows[middle]), int(rows[min(middle + tenth, len(rows) - 1)])),
    ]
    try:
        for case in cases:
            course = courses[case.name]
            strikes = [Strike(campaign.fault_for(case, offset=middle, tuples=tenth), *bound) for bound in bounds]
            lanes = [way.lane(course, strike, golden.seed) for strike in strikes]
            together = way.run(course, lanes, {golden.seed: golden})[1]
            alone = run_slow(sample, strikes[1], golden)
            if not same(alone, together):
                return (
                    f"on the first {len(rows):,} source tuples a trial of {case.name} differs from a run of its own in section "
                    f"{_first_apart(alone, together)}: some operator looks at what is in a key, an epoch or a seq"
                )
            step()
    finally:
        sample.release()
    return None


def same(one: TrialOutcome, other: TrialOutcome) -> bool:
    """Whether two outcomes are one, up to the last digits that the order of summation moves."""
    return _first_apart(one, other) is None


def _first_apart(one: TrialOutcome, other: TrialOutcome) -> int | None:
    sections = np.union1d(one.sections, other.sections)
    for part in one.differences:
        mine, theirs = np.zeros(len(sections)), np.zeros(len(sections))
        mine[np.searchsorted(sections, one.sections)] = one.differences[part]
        theirs[np.searchsorted(sections, other.sections)] = other.differences[part]
        scale = max(float(np.abs(mine).max(initial=0)), float(np.abs(theirs).max(initial=0)))
        apart = np.flatnonzero(np.abs(mine - theirs) > CLOSE * np.maximum(np.abs(mine), np.abs(theirs)) + 1e-9 * scale)
        if len(apart):
            return int(sections[apart[0]])
    return None


def _beginning(setting: CampaignContext) -> CampaignContext:
    first, until = int(setting.rows.seq[0]), int(setting.rows.seq[min(SAMPLE, len(setting.rows.seq)) - 1])
    trace = {name: frame.where(F.col("seq") <= until).drop("epoch") for name, frame in setting.sources.items()}
    return CampaignContext(
        setting.spark,
        setting.app,
        trace,
        scores=setting.scores,
        jitter=setting.jitter,
        section=max(1, (until - first) // 50),
        schemas=setting.schemas,
    )
