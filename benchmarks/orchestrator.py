"""Compare recovering a killed orchestrator with starting its jobs again, and measure how recovery grows up to 10,000 PEs.

    python benchmarks/orchestrator.py [--runs 3] [--no-beyond] [--json]

The orchestrator is a real process. It is killed with SIGKILL while 930 light PEs run on 90 nodes (many node controllers in one
process). Recovery is timed from the start of the new process, three times in every run. All figures are medians, because a busy
machine makes single runs long.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from statistics import median

from holdfast_papers.system_s.recovery_study import BEYOND, FIGURE_8, Row, Run, averaged, measure

BOUND = 1 / 3
FIVE = FIGURE_8[4]


def measure_row(row: Row, count: int, scratch: Path) -> list[Run]:
    """Measure a row `count` times and print each run when it ends."""
    runs = []
    for number in range(1, count + 1):
        run = measure(row, scratch / f"{row.nodes}-{number}", bytecode=scratch / "bytecode", again=row is FIVE, crashes=3)
        runs.append(run)
        print(
            f"[{number}/{count}] {run.pes:,} PEs on {run.nodes:,} nodes: start {run.start_s:.2f}"
            f"{'' if run.again_s is None else f' and {run.again_s:.2f}'} s, load {os.getloadavg()[0]:.1f}, "
            f"recovered {run.recover_s:.2f} s (answered after {run.boot_s:.2f} s), {run.restarted} restarted, {run.lost} lost",
            file=sys.stderr,
            flush=True,
        )
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--beyond", action=argparse.BooleanOptionalAction, default=True, help="also 3,000 and 10,000 PEs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit ends all processes that were started
    with tempfile.TemporaryDirectory(prefix="holdfast-orchestrator-") as scratch:
        runs = {FIVE.name: measure_row(FIVE, options.runs, Path(scratch))}
        for row in BEYOND if options.beyond else ():
            runs[row.name] = measure_row(row, 1, Path(scratch))
    medians = {name: averaged(row_runs, by=median) for name, row_runs in runs.items()}
    base, base_pes = medians[FIVE.name], runs[FIVE.name][0].pes
    growth = {
        f"{row_runs[0].pes}": {
            "times_the_pes": row_runs[0].pes / base_pes,
            "times_the_recovery": medians[name]["recover_s"] / base["recover_s"],
        }
        for name, row_runs in runs.items()
        if name != FIVE.name
    }
    untouched = all(not run.restarted and not run.lost for row_runs in runs.values() for run in row_runs)
    linear = all(factors["times_the_recovery"] <= factors["times_the_pes"] for factors in growth.values())
    ratio = base["recover_s"] / base["start_s"]
    report = {
        "claim": "recovery of 930 PEs on 90 nodes, the orchestrator's own start included, takes less than a third of the time to "
        "start the jobs again, and grows at most linearly in PEs up to 10,000",
        "ours": base["recover_s"],
        "theirs": base["start_s"],
        "ratio": ratio,
        "bound": BOUND,
        "holds": ratio < BOUND and linear and untouched,
        "growth": growth,
        "medians": medians,
        "untouched": untouched,
        "runs": [run.document() for row_runs in runs.values() for run in row_runs],
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(
        f"930 PEs on 90 nodes: started in {base['start_s']:.2f} s, recovered in {base['recover_s']:.2f} s, of which "
        f"{base['boot_s']:.2f} s until the first answer; ratio {ratio:.2f}, bound {BOUND:.2f}: "
        f"{'holds' if ratio < BOUND else 'fails'}"
    )
    for pes, factors in growth.items():
        print(
            f"{int(pes):,} PEs: {factors['times_the_pes']:.1f} times the PEs, "
            f"{factors['times_the_recovery']:.1f} times the recovery"
        )
    print("no PE restarted, none lost" if untouched else "PEs WERE RESTARTED OR LOST")


if __name__ == "__main__":
    main()
