"""The findings of ISORC'16, section VI, about late PEs, checked with our runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from holdfast_papers.finding import Finding
from holdfast_papers.isorc16.algorithm_findings import ACCURACY
from holdfast_papers.isorc16.late_runs import SERVERS, Cell, LateRun
from holdfast_papers.isorc16.seed_runs import Cells, Interval, group_runs, ratio

TABLE_4: Mapping[tuple[str, str, str], Mapping[str, tuple[float, float]]] = {
    ("2 VMs", "small", "small"): {"baseline": (257.90, 5264.12), "upstream": (183.61, 3258.36), "prediction": (14.967, 292.49)},
    ("2 VMs", "small", "medium"): {"baseline": (293.86, 6489.63), "upstream": (213.77, 4303.70), "prediction": (57.15, 572.34)},
    ("2 VMs", "small", "large"): {"baseline": (202.72, 4288.72), "upstream": (222.55, 5832.72), "prediction": (129.32, 1792.72)},
    ("2 VMs", "large", "small"): {"baseline": (378.99, 5654.00), "upstream": (426.68, 6477.08), "prediction": (202.41, 2237.52)},
    ("2 VMs", "large", "medium"): {"baseline": (539.17, 6204.43), "upstream": (524.27, 6667.13), "prediction": (306.45, 3249.78)},
    ("2 VMs", "large", "large"): {"baseline": (429.95, 6819.42), "upstream": (558.76, 6523.19), "prediction": (345.87, 4110.62)},
    ("7 VMs", "small", "small"): {"baseline": (182.38, 3539.57), "upstream": (193.65, 4394.59), "prediction": (13.86, 1151.71)},
    ("7 VMs", "small", "medium"): {"baseline": (142.09, 4460.15), "upstream": (159.44, 3933.50), "prediction": (25.96, 3079.77)},
    ("7 VMs", "small", "large"): {"baseline": (143.96, 4649.28), "upstream": (201.83, 4196.15), "prediction": (133.96, 3584.50)},
    ("7 VMs", "large", "small"): {"baseline": (253.24, 4832.33), "upstream": (322.22, 4736.22), "prediction": (26.76, 280.81)},
    ("7 VMs", "large", "medium"): {"baseline": (305.43, 4868.63), "upstream": (228.35, 4227.59), "prediction": (88.68, 3794.32)},
    ("7 VMs", "large", "large"): {"baseline": (340.97, 5217.39), "upstream": (180.89, 5636.30), "prediction": (227.14, 3462.26)},
}
"""End-to-end time in milliseconds, average and maximum, by system size, fault size and input."""
RIVALS = ("upstream", "prediction")
COMPARED = ("baseline", *RIVALS)
DEADLINE = "upstream at the deadline"
SHARE = 0.39
"""The abstract: end-to-end time is 61 % below upstream backup's."""
TABLE_SHARE = sum(row["prediction"][0] for row in TABLE_4.values()) / sum(row["upstream"][0] for row in TABLE_4.values())
"""What Table 4 yields instead: 46 %."""
CPU, UPLOAD, DOWNLOAD = 0.12, -0.44, -0.35
"""Section VI: prediction's CPU compared with the others', and what it sends and receives compared with upstream backup."""


def paper_cell(cell: Cell) -> Mapping[str, tuple[float, float]]:
    """Return the paper's row that corresponds to a cell."""
    return TABLE_4["2 VMs" if cell.pes == 5 else "7 VMs", cell.fault, cell.data]


def late_findings(runs: Sequence[LateRun]) -> list[Finding]:
    """Check the findings on the medians over the seeds. Each uses the cells in which all settings that it compares were run."""
    pairs, cells = _cells_with(runs, RIVALS), _cells_with(runs, COMPARED)
    if not pairs:
        return []
    deadline = _cells_with(runs, ("prediction", DEADLINE))
    return [
        *_averages(pairs),
        *([_below_deadline_backup(deadline)] if deadline else []),
        _maximum(pairs),
        *(_compared_with_baseline(cells) if cells else []),
        _accuracy(pairs),
        _corrected(runs),
    ]


def _cells_with(runs: Sequence[LateRun], settings: Sequence[str]) -> Cells:
    """Return the cells in which all these settings were run."""
    return {cell: settings_of for cell, settings_of in group_runs(runs).items() if set(settings) <= set(settings_of)}


def _compared_with_baseline(cells: Cells) -> list[Finding]:
    return [
        *_alike(cells),
        *_fault_size(cells),
        *_input_size(cells),
        *_largest(cells),
        *_system_size(cells),
        _throughput(cells),
        _cpu(cells),
        _memory(cells),
        _bytes(cells, "sends", UPLOAD, "upload", lambda run: run.usage.written_bytes),
        _bytes(cells, "receives", DOWNLOAD, "download", lambda run: run.usage.read_bytes),
    ]


def _mean(cells: Cells, setting: str) -> float:
    return statistics.fmean(settings[setting].average_s for settings in cells.values())


def _averages(cells: Cells) -> list[Finding]:
    """Check the average by the paper's clock, which starts with a tuple's input and not when its epoch closes."""
    share = ratio(cells, "prediction", "upstream", lambda run: run.tuple_average_s)
    from_close = ratio(cells, "prediction", "upstream", lambda run: run.average_s)
    text = f"{share.text('.1%')}; from an epoch's close {from_close.text('.1%')}"
    name = (
        "prediction's average, timed from a tuple's arrival, is at most {:.0%} of upstream backup's (timeout 30 s, as in the paper)"
    )
    return [
        Finding(name.format(SHARE), "39 % (abstract)", text, share.median <= SHARE),
        Finding(name.format(TABLE_SHARE), "46 % (mean of its Table 4)", text, share.median <= TABLE_SHARE),
    ]


def _below_deadline_backup(cells: Cells) -> Finding:
    shares = {c: ratio({c: f}, "prediction", DEADLINE, lambda run: run.average_s) for c, f in cells.items()}
    return Finding(
        "prediction's average is below that of upstream backup with the deadline as timeout in every cell",
        "(not in the paper)",
        ", ".join(f"{cell.short} {share.text('.0%')}" for cell, share in shares.items()),
        all(share.median < 1 for share in shares.values()),
    )


def _maximum(cells: Cells) -> Finding:
    longest = {c: [f[name].of(lambda run: run.worst_s) for name in ("prediction", "upstream")] for c, f in cells.items()}
    return Finding(
        "prediction's longest end-to-end time is below upstream backup's in every cell",
        "in every cell",
        ", ".join(f"{cell.short} {ours.text('.1f')} of {theirs.text('.1f')} s" for cell, (ours, theirs) in longest.items()),
        all(ours.median < theirs.median for ours, theirs in longest.values()),
    )


def _alike(cells: Cells) -> list[Finding]:
    shares = {c: ratio({c: f}, "upstream", "baseline", lambda run: run.average_s) for c, f in cells.items() if c.fault == "large"}
    if not shares:
        return []
    return [
        Finding(
            "with large faults upstream backup differs little from the baseline",
            "minimal difference",
            "of the baseline's average: " + ", ".join(f"{cell.short} {share.text('.0%')}" for cell, share in shares.items()),
            all(abs(share.median - 1) < 0.25 for share in shares.values()),
        )
    ]


def _fault_size(cells: Cells) -> list[Finding]:
    sizes = {size: {c: f for c, f in cells.items() if c.fault == size} for size in ("small", "large")}
    if not all(sizes.values()):
        return []
    text = {s: (_mean(sizes["small"], s), _mean(sizes["large"], s)) for s in COMPARED}
    return [
        Finding(
            "large faults make the average longer than small ones for every setting",
            "for every setting",
            ", ".join(f"{setting} {small:.2f} to {large:.2f} s" for setting, (small, large) in text.items()),
            all(small < large for small, large in text.values()),
        ),
        _sensitivity({setting: large / small - 1 for setting, (small, large) in text.items()}),
    ]


def _sensitivity(more: Mapping[str, float]) -> Finding:
    """Check how much longer the average is with large faults, in the paper's cells and in ours."""
    paper = {s: [statistics.fmean(row[s][0] for c, row in TABLE_4.items() if c[1] == f) for f in ("small", "large")] for s in more}
    return Finding(
        "prediction is more sensitive to large faults than the others",
        ", ".join(f"{setting} {large / small - 1:+.0%}" for setting, (small, large) in paper.items()),
        ", ".join(f"{setting} {share:+.0%}" for setting, share in more.items()),
        more["prediction"] > max(more["baseline"], more["upstream"]),
    )


def _input_size(cells: Cells) -> list[Finding]:
    rows: dict[tuple[int, str], list[float]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.pes, cell.fault, list(SERVERS).index(cell.data))):
        rows.setdefault((cell.pes, cell.fault), []).append(cells[cell]["prediction"].average_s)
    rows = {row: averages for row, averages in rows.items() if len(averages) > 1}
    if not rows:
        return []
    text = (
        f"{pes} PEs, {fault} faults " + " to ".join(f"{a:.2f}" for a in runs_of) + " s" for (pes, fault), runs_of in rows.items()
    )
    return [
        Finding(
            "more input makes prediction's average longer",
            "in every row",
            ", ".join(text),
            all(a < b for runs_of in rows.values() for a, b in pairwise(runs_of)),
        )
    ]


def _largest(cells: Cells) -> list[Finding]:
    """Check the cells in which the paper's approach is not the fastest."""
    most = {cell: runs_of for cell, runs_of in cells.items() if (cell.fault, cell.data) == ("large", "large")}
    if not most:
        return []
    text = (f"{c.pes} PEs: " + ", ".join(f"{s} {f[s].average_s:.2f} s" for s in COMPARED) for c, f in most.items())
    return [
        Finding(
            "with large faults and large input upstream backup is faster than all",
            "on 7 VMs; on 2 VMs prediction is",
            "; ".join(text),
            all(f["upstream"].average_s < min(f["baseline"].average_s, f["prediction"].average_s) for f in most.values()),
        )
    ]


def _system_size(cells: Cells) -> list[Finding]:
    pairs = [
        (runs_of["upstream"], cells[larger]["upstream"])
        for cell, runs_of in cells.items()
        if cell.pes == 5 and (larger := replace(cell, pes=9)) in cells
    ]
    if not pairs:
        return []
    few, many = (statistics.fmean(runs_of.average_s for runs_of in column) for column in zip(*pairs, strict=True))
    paper = [statistics.fmean(row["upstream"][0] for c, row in TABLE_4.items() if c[0] == size) for size in ("2 VMs", "7 VMs")]
    return [
        Finding(
            "upstream backup is faster on a larger system",
            f"{paper[0]:.0f} to {paper[1]:.0f} ms",
            f"{few:.2f} to {many:.2f} s from 5 to 9 PEs",
            many < few,
        )
    ]


def _throughput(cells: Cells) -> Finding:
    """Check the seconds without output, which Figure 8 shows as dips."""

    def silent(run: LateRun) -> float:
        begins = int(run.times_s[0]) if run.times_s else 0
        return sum(rows == 0 for rows in run.rows_s[begins:])

    seconds = {s: sum(settings[s].of(silent).median for settings in cells.values()) for s in COMPARED}
    return Finding(
        "throughput dips least with prediction",
        "slight drop and sudden increase for the others",
        "seconds without output: " + ", ".join(f"{setting} {count:g}" for setting, count in seconds.items()),
        seconds["prediction"] < min(seconds["baseline"], seconds["upstream"]),
    )


def _cpu(cells: Cells) -> Finding:
    share = max((ratio(cells, "prediction", other, lambda run: run.usage.cpu_s) for other in ("baseline", "upstream")), key=_median)
    agents_s = sum(settings["prediction"].of(lambda run: run.usage.agents_cpu_s).median for settings in cells.values())
    return Finding(
        "prediction uses more CPU than the others, and at most 12 % more",
        f"{CPU:+.0%}",
        f"{share.text('.1%')} of the other's; agents {agents_s:.0f} s",
        1 < share.median <= 1 + CPU,
    )


def _median(interval: Interval) -> float:
    return interval.median


def _memory(cells: Cells) -> Finding:
    used = {s: statistics.fmean(f[s].of(lambda run: run.usage.memory_bytes).median for f in cells.values()) for s in COMPARED}
    text = ", ".join(f"{setting} {memory / 2**20:,.0f} MiB" for setting, memory in used.items())
    return Finding("memory is much the same in every setting", "6 to 9 %", text, max(used.values()) <= 1.5 * min(used.values()))


def _bytes(cells: Cells, verb: str, paper: float, direction: str, value: Callable[[LateRun], float]) -> Finding:
    """Check what PE hosts and agents write and read, which here takes the place of the network."""
    share = ratio(cells, "prediction", "upstream", value)
    name = f"prediction {verb} less than upstream backup"
    return Finding(name, f"{paper:+.0%} {direction}", f"{share.text('.1%')} of the bytes", share.median < 1)


def _accuracy(cells: Cells) -> Finding:
    runs = [run for settings in cells.values() for run in settings["prediction"].by_seed.values()]
    shares = [run.accuracy for run in runs if run.accuracy is not None]
    interval = Interval.of(shares) if shares else None
    return Finding(
        "predicted numbers are within 5 % of the truth more often than in the paper's system",
        f"{ACCURACY[0]:.0%} to {ACCURACY[1]:.0%}",
        "nothing was predicted" if interval is None else interval.text(".1%"),
        interval is not None and interval.median > ACCURACY[1],
    )


def _corrected(runs: Sequence[LateRun]) -> Finding:
    inexact = {run.corrected is True: 0 for run in runs}
    for run in runs:
        inexact[run.corrected is True] += sum(count for quality, count in run.qualities.items() if quality != "exact")
    return Finding(
        "every predicted or tentative result was corrected in the end",
        "(not in the paper)",
        f"{inexact.get(True, 0)} inexact results in {sum(run.corrected is True for run in runs)} of {len(runs)} runs",
        inexact.get(True, 0) > 0 and all(run.corrected is True for run in runs),
    )
