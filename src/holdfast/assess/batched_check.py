"""Test whether trials may share jobs: run one trial per fault path both ways on the beginning of the trace, and compare."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pyspark.sql import functions as F

from holdfast.assess.batched import BatchedRunner
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext, TraceKey
from holdfast.assess.case import Case
from holdfast.assess.fault_reach import FaultPath
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.injection import Injection
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.whole_trace_trial import run_whole_trace

SAMPLE = 20_000
"""Source tuples of the sample."""
CLOSE = 1e-6


def one_case_per_path(cases: Iterable[Case], fault_paths: Mapping[str, FaultPath]) -> list[Case]:
    """Return one case for every distinct fault path; other cases with the same path would show the same."""
    cases_by_path: dict[tuple[tuple[str, tuple[str, ...]], ...], Case] = {}
    for case in cases:
        cases_by_path.setdefault(tuple(sorted(fault_paths[case.name].edges.items())), case)
    return list(cases_by_path.values())


def find_disagreement(
    context: CampaignContext,
    campaign: Campaign,
    fault_paths: Mapping[str, FaultPath],
    *,
    cases: Sequence[Case],
    step: Callable[[], None] = lambda: None,
) -> str | None:
    """Return how batched and whole-trace trials disagree on a sample, or None if they agree.

    Each case has two batched trials in the middle of the sample, a short and a long one, to test that slots do not mix. `step` is
    called after the sample's golden run and after each case.
    """
    sample = _beginning(context)
    if not isinstance(sample.trace_key, TraceKey):
        return sample.trace_key
    streams = {stream for stream, _ in sample.kept_streams()} | {
        stream for case in cases for stream in fault_paths[case.name].inputs
    }
    runner = BatchedRunner(sample, sample.golden_index(sample.stream_seqs(streams)))
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
            fault_path = fault_paths[case.name]
            injections = [Injection(campaign.fault_for(case, offset=middle, tuples=tenth), *bound) for bound in bounds]
            slots = [runner.slot(fault_path, injection, golden.seed) for injection in injections]
            batched = runner.run(fault_path, slots, {golden.seed: golden})[1]
            separate = run_whole_trace(sample, injections[1], golden)
            if not same(separate, batched):
                return (
                    f"on the first {len(rows):,} source tuples a trial of {case.name} differs from a run of its own in section "
                    f"{_first_difference(separate, batched)}: some operator uses the value of a key, an epoch or a seq"
                )
            step()
    finally:
        sample.release()
    return None


def same(one: TrialOutcome, other: TrialOutcome) -> bool:
    """Return whether two outcomes are equal, apart from rounding."""
    return _first_difference(one, other) is None


def _first_difference(one: TrialOutcome, other: TrialOutcome) -> int | None:
    sections = np.union1d(one.sections, other.sections)
    for part in one.differences:
        mine, theirs = np.zeros(len(sections)), np.zeros(len(sections))
        mine[np.searchsorted(sections, one.sections)] = one.differences[part]
        theirs[np.searchsorted(sections, other.sections)] = other.differences[part]
        scale = max(float(np.abs(mine).max(initial=0)), float(np.abs(theirs).max(initial=0)))
        differing = np.flatnonzero(np.abs(mine - theirs) > CLOSE * np.maximum(np.abs(mine), np.abs(theirs)) + 1e-9 * scale)
        if len(differing):
            return int(sections[differing[0]])
    return None


def _beginning(context: CampaignContext) -> CampaignContext:
    first, until = int(context.rows.seq[0]), int(context.rows.seq[min(SAMPLE, len(context.rows.seq)) - 1])
    trace = {name: frame.where(F.col("seq") <= until).drop("epoch") for name, frame in context.sources.items()}
    return CampaignContext(
        context.spark,
        context.app,
        trace,
        scores=context.scores,
        jitter=context.jitter,
        section=max(1, (until - first) // 50),
        schemas=context.schemas,
    )
