"""What it takes to recover a killed orchestrator, against starting its jobs again; and how that grows up to 10,000 PEs.

    python benchmarks/orchestrator.py [--runs 3] [--no-beyond] [--json]

The orchestrator is a real process that is killed with SIGKILL while 930 light PEs run on 90 nodes (many node controllers in one
process). Recovery is timed from starting a new process (cold), and from the kill, where `serve --revive` starts it again: three
times each in every run; the claim holds if it does for both. Figures are medians, because a busy machine makes single ones long.
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


def measured(row: Row, runs: int, scratch: Path) -> list[Run]:
    """So many runs of a row, told as they end."""
    made = []
    for number in range(1, runs + 1):
        run = measure(row, scratch / f"{row.nodes}-{number}", bytecode=scratch / "bytecode", again=row is FIVE, crashes=3)
        made.append(run)
        print(
            f"[{number}/{runs}] {run.pes:,} PEs on {run.nodes:,} nodes: start {run.start_s:.2f}"
            f"{'' if run.again_s is None else f' and {run.again_s:.2f}'} s, load {os.getloadavg()[0]:.1f}, "
            f"recovered {run.recover_s:.2f} s (answered after {run.boot_s:.2f} s), revived {run.revive_s:.2f} s, "
            f"{run.restarted} restarted, {run.lost} lost",
            file=sys.stderr,
            flush=True,
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--beyond", action=argparse.BooleanOptionalAction, default=True, help="also 3,000 and 10,000 PEs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all that was started is ended
    with tempfile.TemporaryDirectory(prefix="holdfast-orchestrator-") as scratch:
        runs = {FIVE.name: measured(FIVE, given.runs, Path(scratch))}
        for row in BEYOND if given.beyond else ():
            runs[row.name] = measured(row, 1, Path(scratch))
    medians = {name: averaged(made, by=median) for name, made in runs.items()}
    base, base_pes = medians[FIVE.name], runs[FIVE.name][0].pes
    growth = {
        f"{made[0].pes}": {
            "times_the_pes": made[0].pes / base_pes,
            "times_the_recovery": medians[name]["recover_s"] / base["recover_s"],
            "times_the_revival": medians[name]["revive_s"] / base["revive_s"],
        }
        for name, made in runs.items()
        if name != FIVE.name
    }
    untouched = all(not run.restarted and not run.lost for made in runs.values() for run in made)
    linear = all(
        found[times] <= found["times_the_pes"] for found in growth.values() for times in ("times_the_recovery", "times_the_revival")
    )
    cold, revived = base["recover_s"] / base["start_s"], base["revive_s"] / base["start_s"]
    report = {
        "claim": "recovery of 930 PEs on 90 nodes, the orchestrator's own start included, takes less than a third of the time to "
        "start the jobs again, and grows at most linearly in PEs up to 10,000",
        "ours": base["recover_s"],
        "ours_revived": base["revive_s"],
        "theirs": base["start_s"],
        "ratio": cold,
        "ratio_revived": revived,
        "bound": BOUND,
        "holds": max(cold, revived) < BOUND and linear and untouched,
        "growth": growth,
        "medians": medians,
        "untouched": untouched,
        "runs": [run.document() for made in runs.values() for run in made],
    }
    if given.json:
        print(json.dumps(report, indent=2))
        return
    told = ["holds" if ratio < BOUND else "fails" for ratio in (cold, revived)]
    print(
        f"930 PEs on 90 nodes: started in {base['start_s']:.2f} s\n"
        f"  recovered, cold: {base['recover_s']:.2f} s, of which {base['boot_s']:.2f} s until the first answer; ratio {cold:.2f}, "
        f"bound {BOUND:.2f}: {told[0]}\n"
        f"  revived: {base['revive_s']:.2f} s; ratio {revived:.2f}, bound {BOUND:.2f}: {told[1]}"
    )
    for pes, found in growth.items():
        print(
            f"{int(pes):,} PEs: {found['times_the_pes']:.1f} times the PEs, {found['times_the_recovery']:.1f} times the recovery, "
            f"{found['times_the_revival']:.1f} times the revival"
        )
    print("no PE restarted, none lost" if untouched else "PEs WERE RESTARTED OR LOST")


if __name__ == "__main__":
    main()
