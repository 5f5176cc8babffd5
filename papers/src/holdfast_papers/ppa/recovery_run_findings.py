"""The statements of PPA's section VI-A about Figures 7, 8 and 10, checked with real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from holdfast_papers.finding import Finding
from holdfast_papers.ppa.recovery_runs import EPOCH_S, RATE, TECHNIQUES, VARIED, WINDOW

Row = Mapping[str, Any]
"""The record of a run, with its rate and its window in epochs."""


def latency_s(row: Row, scope: str = "all") -> float:
    """Return how long tasks without replicas took to recover after one or all tasks died (`scope`); infinity if not measured."""
    seconds = row[f"{scope}_latency_s"]
    return inf if seconds is None else float(seconds)


def findings(rows: Sequence[Row]) -> list[Finding]:
    """Check the statements at one rate and window and, if there are runs at others, about their influence."""
    at = {(row["technique"], row["rate"], row["window"]): row for row in rows}
    by = {technique.name: at[technique.name, RATE, WINDOW] for technique in TECHNIQUES}
    active, half, short, long, replay = (by[technique.name] for technique in TECHNIQUES)
    passive = (short, long, replay)

    def listed(figure: str) -> str:
        return ", ".join(f"{name} {row[figure]:.1f}" for name, row in by.items()) + " s"

    return [
        Finding(
            "real runs: with active replicas the output is back soonest after one task died",
            "much lower than the passive ones",
            listed("one_silence_s"),
            all(active["one_silence_s"] < row["one_silence_s"] for row in passive),
        ),
        Finding(
            "real runs: and also after all tasks died at once",
            "much lower than the passive ones",
            listed("all_silence_s"),
            all(active["all_silence_s"] < row["all_silence_s"] for row in passive),
        ),
        Finding(
            "real runs: recovery from checkpoints grows with their interval",
            "increases",
            f"one task: {latency_s(short, 'one'):.1f} and {latency_s(long, 'one'):.1f} s; "
            f"all: {latency_s(short):.1f} and {latency_s(long):.1f} s",
            latency_s(short) < latency_s(long),
        ),
        Finding(
            "real runs: source replay takes longer than checkpoints of 5 s",
            "most",
            f"all tasks: {latency_s(replay):.1f} against {latency_s(short):.1f} s",
            latency_s(replay) > latency_s(short),
        ),
        Finding(
            "real runs: PPA-0.5 lies between PPA-1.0 and PPA-0",
            "in this order",
            f"{active['all_silence_s']:.1f}, {half['all_silence_s']:.1f}, {long['all_silence_s']:.1f} s until output is back",
            active["all_silence_s"] <= half["all_silence_s"] <= long["all_silence_s"],
        ),
        *(_varied(at) if len(at) > len(by) else []),
    ]


def _varied(at: Mapping[tuple[str, int, int], Row]) -> list[Finding]:
    """Check the influence of another rate and another window."""
    (rate,) = {rate for rate, _ in VARIED} - {RATE}
    (window,) = {window for _, window in VARIED} - {WINDOW}
    active, *passive, replay = (technique.name for technique in TECHNIQUES if technique.varied)
    passive.append(replay)
    waits = [at[active, r, w]["all_silence_s"] for r, w in ((RATE, WINDOW), *VARIED)]
    grows = {name: (latency_s(at[name, RATE, WINDOW]), latency_s(at[name, rate, WINDOW])) for name in passive}
    wide = latency_s(at[replay, RATE, WINDOW]), latency_s(at[replay, RATE, window])
    return [
        Finding(
            "real runs: rate and window hardly matter to active replicas",
            "little influence",
            f"{min(waits):.1f} to {max(waits):.1f} s until output is back",
            max(waits) - min(waits) < EPOCH_S,
        ),
        Finding(
            "real runs: passive recovery grows with the rate",
            "proportionally",
            ", ".join(f"{name} {low:.1f} to {high:.1f} s" for name, (low, high) in grows.items()),
            all(low < high for low, high in grows.values()),
        ),
        Finding(
            "real runs: source replay grows with the window",
            "higher for 30 s than for 10 s",
            f"{wide[0]:.1f} s for {WINDOW} s, {wide[1]:.1f} s for {window} s",
            wide[0] < wide[1],
        ),
    ]
