"""End-to-end latency with a durable log against a log that is not synced (`--no-sync`), without faults.

    python benchmarks/durability.py [--seconds 45] [--warm-up 15] [--rounds 2] [--json]

Bargain Discovery runs as in steady_state.py, with the log and the output in a folder of the temporary directory. Set TMPDIR to a
folder on the disk to measure. Runs with and without sync alternate, and each round reverses their order, so that a slow change of
the machine's load affects both sides alike. The claim compares the medians over all rounds.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from steady_state import EXAMPLE, ROWS, run_ours, summary, write_fused

from holdfast.trace import write_market

BOUND = 1.2
WAYS = ("unfused", "fused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--warm-up", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=WAYS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ways = [options.only] if options.only else list(WAYS)
    latencies_s: dict[tuple[str, bool], list[float]] = {(way, sync): [] for way in ways for sync in (True, False)}
    cores: dict[tuple[str, bool], list[float]] = {key: [] for key in latencies_s}
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        trace = folder / "market.parquet"
        write_market(trace, events=ROWS * options.seconds, seed=1, rate=float(ROWS), peak=1.1 * ROWS)
        apps = {"unfused": (EXAMPLE, 2), "fused": (write_fused(folder), 1)}
        for way in ways:
            app, nodes = apps[way]
            for number in range(options.rounds):
                for sync in (True, False) if number % 2 == 0 else (False, True):
                    work = folder / f"{way}-{number}-{sync}"
                    latencies, used = run_ours(trace, app, work, nodes=nodes, warm_up=options.warm_up, sync=sync)
                    latencies_s[way, sync] += latencies
                    cores[way, sync].append(used)
                    print(f"{way}, round {number}, sync {sync}: {summary(latencies, used)}", file=sys.stderr)
    results = {key: summary(latencies_s[key], sum(cores[key]) / len(cores[key])) for key in latencies_s}
    ratios = {way: results[way, True]["median_s"] / results[way, False]["median_s"] for way in ways}
    document = {
        "claim": f"fault-free at {ROWS} rows/s, the median latency with a durable log is at most {BOUND} times that with --no-sync",
        "ours": {way: results[way, True] for way in ways},
        "theirs": {way: results[way, False] for way in ways},
        "ratio": ratios,
        "bound": BOUND,
        "holds": all(ratio <= BOUND for ratio in ratios.values()),
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for way in ways:
        for side, sync in (("sync", True), ("no sync", False)):
            result = results[way, sync]
            latency = f"median {result['median_s']:.3f} s, 95 % within {result['p95_s']:.3f} s"
            print(f"{way:8} {side:8} {latency} ({result['epochs']} epochs)")
        print(f"{way:8} ratio    {ratios[way]:.2f} (bound {BOUND})")
    print("holds" if document["holds"] else "does not hold")


if __name__ == "__main__":
    main()
