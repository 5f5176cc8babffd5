"""A fault injection campaign both ways: trials that share Spark jobs, against one run of the whole trace per trial.

Runs the fast way in full and times a few trials of the slow way, from which it extrapolates to all of them: it says so. The
outcomes of those few are compared. Both sides run in one session on one machine, one after the other.

    python benchmarks/campaign.py --events 5000000
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from holdfast.assess.campaign import OUTAGES_S, Campaign
from holdfast.assess.case import Case
from holdfast.assess.golden import run_golden
from holdfast.assess.results import Results
from holdfast.assess.runner import Runner
from holdfast.assess.score import own_score
from holdfast.assess.setting import Setting
from holdfast.assess.slow import run_slow
from holdfast.assess.target import choose_targets
from holdfast.assess.verify import same
from holdfast.execute.session import open_session
from holdfast.execute.trace import open_trace
from holdfast.model.load import load_app
from holdfast.trace import write_market

APPLICATION = Path(__file__).parents[1] / "examples" / "bargain_discovery.py"


def main() -> None:
    arguments = parsed()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        trace = arguments.trace or folder / "market.parquet"
        if not arguments.trace:
            write_market(trace, events=arguments.events, seed=1)
        spark = open_session(arguments.master, name="campaign benchmark", memory=arguments.memory)
        try:
            found = measure(spark, trace, folder, repetitions=arguments.repetitions, slow_trials=arguments.slow_trials)
        finally:
            spark.stop()
    print(json.dumps(found, indent=2) if arguments.json else told(found))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--trace", type=Path, help="a market trace that is there already")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--slow-trials", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def measure(spark, trace, folder, *, repetitions, slow_trials):
    app = load_app(APPLICATION)
    setting = Setting(spark, app, open_trace(spark, app.graph(), str(trace)), scores=[own_score(app)], jitter=8, section=5000)
    rows = len(setting.rows.seq)
    campaign = Campaign(
        subject={"application": app.name},
        cases=tuple(Case((choice.name,)) for choice in choose_targets(app.graph()) if choice.chosen),
        offsets=tuple(int(rows * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)),
        outages_s=OUTAGES_S,
        repetitions=repetitions,
        golden_runs=repetitions,
        scores=tuple(score.expression for score in setting.scores),
        sink=setting.sink,
    )
    load_before = os.getloadavg()[0]
    began = time.perf_counter()
    runner = Runner(setting, campaign)
    assert runner.why_slow is None, runner.why_slow
    prepared = time.perf_counter()
    phases = {}

    def progress(what, done, of):
        phases.setdefault(what, time.perf_counter())
        print(f"{what}: {done} of {of}, {time.perf_counter() - began:.0f} s", file=sys.stderr)

    results = Results(folder / "results", campaign)
    runner.run(results, progress=progress)
    ended = time.perf_counter()
    outcomes = results.outcomes()
    slow, agree = [], []
    golden = run_golden(setting, campaign.seed_of(0), outputs=False)
    every = [trial for trial in campaign.trials() if trial.repetition == 0]
    for trial in every[:: max(1, len(every) // slow_trials)][:slow_trials]:
        start = time.perf_counter()
        outcome = run_slow(setting, runner.strike(trial), golden)
        slow.append(time.perf_counter() - start)
        agree.append(same(outcome, outcomes[trial]))
    per_slow = statistics.median(slow)
    fast_s = ended - began
    return {
        "events": rows,
        "trials": campaign.size,
        "fast_s": round(fast_s, 1),
        "fast_parts_s": {
            "preparation and verification": round(prepared - began, 1),
            "golden runs": round(phases.get("trials", ended) - prepared, 1),
            "trials": round(ended - phases.get("trials", ended), 1),
        },
        "slow_trials_timed": len(slow),
        "slow_s_per_trial": [round(seconds, 2) for seconds in slow],
        "slow_s_extrapolated": round(per_slow * campaign.size, 1),
        "times_faster": round(per_slow * campaign.size / fast_s, 1),
        "times_faster_trials_alone": round(per_slow * campaign.size / (ended - phases.get("trials", ended)), 1),
        "outcomes_agree": all(agree),
        "load_before_and_after": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "cores": os.cpu_count(),
    }


def told(found):
    return (
        f"{found['trials']:,} injections over {found['events']:,} events\n"
        f"fast: {found['fast_s']:,} s in all ({found['fast_parts_s']})\n"
        f"slow: {found['slow_s_per_trial']} s for {found['slow_trials_timed']} trials, so about "
        f"{found['slow_s_extrapolated']:,} s for all of them (extrapolated from the median, not measured)\n"
        f"{found['times_faster']} times faster, golden runs and checks included; the compared outcomes "
        f"{'agree' if found['outcomes_agree'] else 'DIFFER'}\n"
        f"load average before and after: {found['load_before_and_after']} on {found['cores']} cores"
    )


if __name__ == "__main__":
    main()
