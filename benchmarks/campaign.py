"""Compare a fault injection campaign with batched trials against one run of the whole trace per trial.

Runs the whole batched campaign, times a few whole-trace trials, and extrapolates these to all trials. It also compares the
outcomes of these few. Both run in one session on one machine, one after the other. With --growth it compares time and memory of a
small campaign and of one with ten times the repetitions.

    python benchmarks/campaign.py --events 5000000
    python benchmarks/campaign.py --growth --events 500000 --repetitions 2
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from holdfast.app.load import load_app
from holdfast.assess.assessment import assess_results
from holdfast.assess.batched_check import same
from holdfast.assess.campaign import OUTAGES_S, Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.output_score import own_scores
from holdfast.assess.runner import Runner
from holdfast.assess.targets import choose_targets
from holdfast.assess.whole_trace_trial import run_whole_trace
from holdfast.engine.session import open_session
from holdfast.engine.trace_reader import open_trace
from holdfast.trace import write_market

APPLICATION = Path(__file__).parents[1] / "examples" / "bargain_discovery.py"
FASTER_BOUND = 50.0
GROWTH = 10
MEMORY_BOUND = 1.5
"""How much more memory ten times the trials may use. If a tenth of the memory grew with the trials, it would be 1.9."""


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        trace = arguments.trace or folder / "market.parquet"
        if not arguments.trace:
            write_market(trace, events=arguments.events, seed=1)
        spark = open_session(arguments.master, name="campaign benchmark", memory=arguments.memory)
        try:
            if arguments.growth:
                result = compare_sizes(spark, trace, folder, repetitions=arguments.repetitions)
            else:
                result = compare_runners(spark, trace, folder, repetitions=arguments.repetitions, slow_trials=arguments.slow_trials)
        finally:
            spark.stop()
    print(json.dumps(result, indent=2) if arguments.json else as_text(result))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--trace", type=Path, help="an existing market trace")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--slow-trials", type=int, default=4)
    parser.add_argument("--growth", action="store_true", help="compare with ten times the repetitions")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def prepare(spark, trace, *, repetitions):
    """Return Bargain Discovery on the trace, and the paper's campaign for it."""
    app = load_app(APPLICATION)
    context = CampaignContext(
        spark, app, open_trace(spark, app.graph(), str(trace)), scores=own_scores(app)[:1], jitter=8, section=5000
    )
    rows = len(context.rows.seq)
    campaign = Campaign(
        subject={"application": app.name},
        cases=tuple(Case((choice.name,)) for choice in choose_targets(app.graph()) if choice.chosen),
        offsets=tuple(int(rows * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)),
        outages_s=OUTAGES_S,
        repetitions=repetitions,
        golden_runs=repetitions,
        scores=tuple(score.expression for score in context.scores),
        sink=context.sink,
    )
    return context, campaign


def run_campaign(context, campaign, folder):
    """Run the campaign from preparation to assessment; return its results and the seconds of each part."""
    began = {"preparation and verification": time.perf_counter()}
    runner = Runner(context, campaign)
    assert runner.why_none_batched is None, runner.why_none_batched

    def progress(what, done, of):
        began.setdefault(what, time.perf_counter())
        print(f"{what}: {done} of {of}", file=sys.stderr)

    results = Results(folder, campaign)
    runner.run(results, progress=progress)
    began["assessment"] = time.perf_counter()
    assess_results(results)
    ends = [*list(began.values())[1:], time.perf_counter()]
    return results, {what: end - start for (what, start), end in zip(began.items(), ends, strict=True)}


def compare_runners(spark, trace, folder, *, repetitions, slow_trials):
    """Compare both ways. Half of the whole-trace trials run before the batched campaign and half after it, because the load of the
    machine may change."""
    context, campaign = prepare(spark, trace, repetitions=repetitions)
    load_before = os.getloadavg()[0]
    golden = run_golden(context, campaign.seed_of(0), outputs=False)
    runner = Runner(context, campaign, way="slow")
    every = [trial for trial in campaign.trials() if trial.repetition == 0]
    timed = every[:: max(1, len(every) // slow_trials)][:slow_trials]
    slow, outcomes = [], {}

    def run_separately(trials):
        for trial in trials:
            start = time.perf_counter()
            outcomes[trial] = run_whole_trace(context, runner.injection_of(trial), golden)
            slow.append(time.perf_counter() - start)

    run_separately(timed[::2])
    results, parts = run_campaign(context, campaign, folder / "results")
    run_separately(timed[1::2])
    agree = [same(outcomes[trial], outcome) for trial, outcome in results.outcomes() if trial in outcomes]
    fast_s, slow_s = sum(parts.values()), statistics.median(slow) * campaign.size
    return {
        "claim": f"a campaign of {campaign.size:,} injections over {len(context.rows.seq):,} events is at least "
        f"{FASTER_BOUND:g} times faster than one run of the whole trace per injection, with the same outcomes",
        "ours": round(fast_s, 1),
        "theirs": round(slow_s, 1),
        "ratio": round(slow_s / fast_s, 1),
        "bound": FASTER_BOUND,
        "holds": slow_s / fast_s >= FASTER_BOUND and all(agree),
        "unit": "s for the whole campaign; theirs extrapolated from the median of the trials timed",
        "our_parts_s": {what: round(seconds, 1) for what, seconds in parts.items()},
        "their_trials_s": [round(seconds, 2) for seconds in slow],
        "outcomes_agree": all(agree),
        "load_before_and_after": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "cores": os.cpu_count(),
    }


def compare_sizes(spark, trace, folder, *, repetitions):
    """Compare the same campaign with few repetitions and with ten times as many."""
    context, warm = prepare(spark, trace, repetitions=1)
    run_campaign(context, warm, folder / "warm")
    seconds, peaks = [], []
    for many in (repetitions, GROWTH * repetitions):
        context, campaign = prepare(spark, trace, repetitions=many)
        reset_peak_memory()
        parts = run_campaign(context, campaign, folder / str(many))[1]
        seconds.append(sum(parts.values()))
        peaks.append(peak_mib())
    slower, larger = seconds[1] / seconds[0], peaks[1] / peaks[0]
    return {
        "claim": f"{GROWTH} times the trials ({campaign.size // GROWTH:,} to {campaign.size:,}) cost at most {GROWTH} times the "
        f"time, and at most {MEMORY_BOUND:g} times the memory of the process that runs them (Spark's own is bounded by its heap)",
        "ours": round(seconds[1], 1),
        "theirs": round(seconds[0], 1),
        "ratio": round(slower, 2),
        "bound": float(GROWTH),
        "holds": slower <= GROWTH and larger <= MEMORY_BOUND,
        "unit": "s for the larger campaign against s for the smaller one",
        "peak_mib": [round(peak) for peak in peaks],
        "memory_ratio": round(larger, 2),
        "events": len(context.rows.seq),
        "cores": os.cpu_count(),
    }


def reset_peak_memory():
    """Reset the kernel's measurement of this process's peak memory."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def as_text(result):
    lines = [f"{'holds' if result['holds'] else 'FAILS'}: {result['claim']}"]
    lines.append(
        f"ours {result['ours']:,}, theirs {result['theirs']:,}, ratio {result['ratio']} (bound {result['bound']:g}); "
        f"{result['unit']}"
    )
    lines += [
        f"{name}: {value}"
        for name, value in result.items()
        if name not in ("claim", "ours", "theirs", "ratio", "bound", "holds", "unit")
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
