"""Runs schedules of the protocol simulation: `python -m tests.simulation.run --schedules 2000`.

The first failing schedule is shrunk and printed. `--seed` replays a run, and `--only` a single schedule of it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator

from .schedule import draw_schedule, play
from .shrink import as_python, shrink

CHUNK = 20


def run_chunk(seeds: range) -> tuple[int, int, float, int | None]:
    """Play some schedules. Return their number, their commits, the CPU seconds they took, and the seed of the first failure."""
    start_s, epochs = time.process_time(), 0
    for count, seed in enumerate(seeds, 1):
        try:
            outcome = play(draw_schedule(seed))
        except Exception as error:
            raise RuntimeError(f"the schedule with seed {seed} ended with an error") from error
        epochs += outcome.epochs
        if outcome.violations:
            return count, epochs, time.process_time() - start_s, seed
    return len(seeds), epochs, time.process_time() - start_s, None


def chunks(seed: int, schedules: int | None) -> Iterator[range]:
    """Yield the seeds of a run, in pieces for single processes."""
    start = seed
    while schedules is None or start < seed + schedules:
        end = start + CHUNK if schedules is None else min(start + CHUNK, seed + schedules)
        yield range(start, end)
        start = end


def explain(seed: int) -> str:
    """Return a failing schedule, shrunk, with the laws that it breaks."""
    schedule, outcome = shrink(draw_schedule(seed))
    violations = "\n".join(f"  {violation}" for violation in outcome.violations[:8])
    return f"schedule {seed} breaks a law:\n{violations}\nreplay it with:\n\n{as_python(schedule)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--schedules", type=int, default=None, help="how many schedules to run; by default until it is stopped")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first schedule; by default a new one")
    parser.add_argument("--only", type=int, default=None, help="replay the schedule with this seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.only is not None:
        outcome = play(draw_schedule(arguments.only))
        print(explain(arguments.only) if outcome.violations else f"schedule {arguments.only} breaks no law ({outcome.digest})")
        return 1 if outcome.violations else 0
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**9) * 1_000
    print(f"protocol simulation, seed {seed}", flush=True)
    start_s, done, epochs, cpu_s, shown_s = time.monotonic(), 0, 0, 0.0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        try:
            for count, committed, took_s, failed in pool.imap_unordered(run_chunk, chunks(seed, arguments.schedules)):
                done, epochs, cpu_s = done + count, epochs + committed, cpu_s + took_s
                if failed is not None:
                    print(explain(failed))
                    return 1
                if time.monotonic() - shown_s > 10:
                    shown_s = time.monotonic()
                    print(f"{done} schedules, {done / (shown_s - start_s):.1f} per second", flush=True)
        except KeyboardInterrupt:
            pool.terminate()
    took_s = time.monotonic() - start_s
    print(
        f"{done} schedules with {epochs} commits hold all laws: {took_s:.0f} s, {done / took_s:.1f} per second, "
        f"{done / max(cpu_s, 1e-9):.1f} per second and core; seed {seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
