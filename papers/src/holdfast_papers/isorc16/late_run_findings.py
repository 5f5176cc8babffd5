"""What ISORC'16, section VI, finds about late PEs, its figures, and whether it holds in our runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from holdfast_papers.finding import Finding
from holdfast_papers.isorc16.algorithm_findings import ACCURACY
from holdfast_papers.isorc16.late_runs import SERVERS, Cell, LateRun

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
SHARE = 0.39
"""The abstract: end-to-end time lower by 61 % than upstream backup's."""
CPU, NETWORK = 0.12, -0.44
"""Section VI: prediction's CPU against the others', and its upload against upstream backup's."""


def paper_cell(cell: Cell) -> Mapping[str, tuple[float, float]]:
    """The paper's row that a cell of ours stands beside."""
    return TABLE_4["2 VMs" if cell.pes == 5 else "7 VMs", cell.fault, cell.data]


Cells = Mapping[Cell, Mapping[str, LateRun]]


def by_cell(runs: Sequence[LateRun]) -> dict[Cell, dict[str, LateRun]]:
    """The runs by cell and setting."""
    found: dict[Cell, dict[str, LateRun]] = {}
    for run in runs:
        found.setdefault(run.cell, {})[run.setting] = run
    return found


def late_findings(runs: Sequence[LateRun]) -> list[Finding]:
    """What the paper finds and what is asked of ours, of all cells in which the settings that a finding compares have been run."""
    pairs, cells = _with(runs, RIVALS), _with(runs, COMPARED)
    if not pairs:
        return []
    deadline = _with(runs, (*RIVALS, "upstream at the deadline"))
    return [
        _average(pairs, "upstream"),
        _from_arrival(pairs),
        *([_average(deadline, "upstream at the deadline")] if len(deadline) == len(pairs) else []),
        _maximum(pairs),
        *(_beside_the_baseline(cells) if cells else []),
        _accuracy(pairs),
        _corrected(runs),
    ]


def _with(runs: Sequence[LateRun], settings: Sequence[str]) -> Cells:
    """The cells in which all these settings were run."""
    return {cell: found for cell, found in by_cell(runs).items() if set(settings) <= set(found)}


def _beside_the_baseline(cells: Cells) -> list[Finding]:
    return [
        *_alike(cells),
        *_fault_size(cells),
        *_input_size(cells),
        *_largest(cells),
        *_system_size(cells),
        _throughput(cells),
        _cpu(cells),
        _memory(cells),
        _bytes(cells),
    ]


def _mean(cells: Cells, setting: str) -> float:
    return statistics.fmean(found[setting].average_s for found in cells.values())


def _average(cells: Cells, rival: str) -> Finding:
    ours, theirs = _mean(cells, "prediction"), _mean(cells, rival)
    shares = {cell: found["prediction"].average_s / found[rival].average_s for cell, found in cells.items()}
    said = ", ".join(f"{cell.short} {share:.0%}" for cell, share in shares.items())
    found = f"{ours:.2f} s of {theirs:.2f} s: {ours / theirs:.0%}; by cell: {said}"
    if rival == "upstream":
        name = "prediction's average end-to-end time is at most 39 % of upstream backup's (timeout 30 s, as in the paper)"
        return Finding(name, "39 %", found, ours <= SHARE * theirs)
    return Finding(f"prediction's average end-to-end time is below that of {rival}", "(not in the paper)", found, ours < theirs)


def _from_arrival(cells: Cells) -> Finding:
    """The same by the paper's clock, which starts with a tuple's input and not with its epoch's close."""
    ours, theirs = (statistics.fmean(f[s].tuple_average_s for f in cells.values()) for s in ("prediction", "upstream"))
    name = "prediction's average is at most 39 % of upstream backup's from a tuple's arrival too, half an epoch before the close"
    return Finding(name, "39 %", f"{ours:.2f} s of {theirs:.2f} s: {ours / theirs:.0%}", ours <= SHARE * theirs)


def _maximum(cells: Cells) -> Finding:
    pairs = [(cell, found["prediction"].worst_s, found["upstream"].worst_s) for cell, found in cells.items()]
    return Finding(
        "prediction's longest end-to-end time is below upstream backup's in every cell",
        "in every cell",
        ", ".join(f"{cell.short} {ours:.1f} of {theirs:.1f} s" for cell, ours, theirs in pairs),
        all(ours < theirs for _, ours, theirs in pairs),
    )


def _alike(cells: Cells) -> list[Finding]:
    apart = {c: found["upstream"].average_s / found["baseline"].average_s - 1 for c, found in cells.items() if c.fault == "large"}
    if not apart:
        return []
    return [
        Finding(
            "with large faults upstream backup differs little from the baseline",
            "minimal difference",
            ", ".join(f"{cell.short} {share:+.0%}" for cell, share in apart.items()),
            all(abs(share) < 0.25 for share in apart.values()),
        )
    ]


def _fault_size(cells: Cells) -> list[Finding]:
    sizes = {size: {c: f for c, f in cells.items() if c.fault == size} for size in ("small", "large")}
    if not all(sizes.values()):
        return []
    said = {s: (_mean(sizes["small"], s), _mean(sizes["large"], s)) for s in COMPARED}
    return [
        Finding(
            "large faults make the average longer than small ones for every setting",
            "for every setting",
            ", ".join(f"{setting} {small:.2f} to {large:.2f} s" for setting, (small, large) in said.items()),
            all(small < large for small, large in said.values()),
        ),
        _sensitivity({setting: large / small - 1 for setting, (small, large) in said.items()}),
    ]


def _sensitivity(more: Mapping[str, float]) -> Finding:
    """How much longer the average is with large faults, of the paper's cells and of ours."""
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
    said = (f"{pes} PEs, {fault} faults " + " to ".join(f"{a:.2f}" for a in found) + " s" for (pes, fault), found in rows.items())
    return [
        Finding(
            "more input makes prediction's average longer",
            "in every row",
            ", ".join(said),
            all(a < b for found in rows.values() for a, b in pairwise(found)),
        )
    ]


def _largest(cells: Cells) -> list[Finding]:
    """Where the paper finds its own approach beaten."""
    most = {cell: found for cell, found in cells.items() if (cell.fault, cell.data) == ("large", "large")}
    if not most:
        return []
    said = (f"{c.pes} PEs: " + ", ".join(f"{s} {f[s].average_s:.2f} s" for s in COMPARED) for c, f in most.items())
    return [
        Finding(
            "with large faults and large input upstream backup is faster than all",
            "on 7 VMs; on 2 VMs prediction is",
            "; ".join(said),
            all(f["upstream"].average_s < min(f["baseline"].average_s, f["prediction"].average_s) for f in most.values()),
        )
    ]


def _system_size(cells: Cells) -> list[Finding]:
    pairs = [
        (found["upstream"], cells[larger]["upstream"])
        for cell, found in cells.items()
        if cell.pes == 5 and (larger := replace(cell, pes=9)) in cells
    ]
    if not pairs:
        return []
    few, many = (statistics.fmean(run.average_s for run in column) for column in zip(*pairs, strict=True))
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
    """Seconds of the stalls in which nothing left, which Figure 8 shows as dips."""

    def silent(run: LateRun) -> int:
        begins = int(run.times_s[0]) if run.times_s else 0
        return sum(rows == 0 for rows in run.rows_s[begins:])

    said = {s: sum(silent(found[s]) for found in cells.values()) for s in COMPARED}
    return Finding(
        "throughput dips least with prediction",
        "slight drop and sudden increase for the others",
        "seconds without output: " + ", ".join(f"{setting} {seconds}" for setting, seconds in said.items()),
        said["prediction"] < min(said["baseline"], said["upstream"]),
    )


def _cpu(cells: Cells) -> Finding:
    totals = {s: sum(found[s].usage.cpu_s for found in cells.values()) for s in COMPARED}
    agents = sum(found["prediction"].usage.agents_cpu_s for found in cells.values())
    more = totals["prediction"] / max(totals["baseline"], totals["upstream"]) - 1
    return Finding(
        "prediction uses more CPU than the others",
        f"{CPU:+.0%}",
        f"{more:+.0%} ({totals['prediction']:.0f} s, of it agents {agents:.0f} s; baseline {totals['baseline']:.0f} s, "
        f"upstream {totals['upstream']:.0f} s)",
        more > 0,
    )


def _memory(cells: Cells) -> Finding:
    used = {s: statistics.fmean(found[s].usage.memory_bytes for found in cells.values()) for s in COMPARED}
    said = ", ".join(f"{setting} {memory / 2**20:,.0f} MiB" for setting, memory in used.items())
    return Finding("memory is much the same in every setting", "6 to 9 %", said, max(used.values()) <= 1.5 * min(used.values()))


def _bytes(cells: Cells) -> Finding:
    written = {s: sum(found[s].usage.written_bytes for found in cells.values()) for s in ("upstream", "prediction")}
    less = written["prediction"] / written["upstream"] - 1 if written["upstream"] else 0.0
    return Finding(
        "prediction sends less than upstream backup",
        f"{NETWORK:+.0%} upload",
        f"{less:+.0%} bytes written by PE hosts and agents ({written['prediction'] >> 20} and {written['upstream'] >> 20} MiB)",
        less < 0,
    )


def _accuracy(cells: Cells) -> Finding:
    shares = [found["prediction"].accuracy for found in cells.values()]
    known = [share for share in shares if share is not None]
    return Finding(
        "what was predicted, every number of a late PE's output, is within 5 % of the truth more often than in the paper's system",
        f"{ACCURACY[0]:.0%} to {ACCURACY[1]:.0%}",
        ", ".join(f"{share:.1%}" for share in known) or "nothing was predicted",
        bool(known) and statistics.fmean(known) > ACCURACY[1],
    )


def _corrected(runs: Sequence[LateRun]) -> Finding:
    return Finding(
        "every predicted or tentative result was corrected in the end",
        "(not in the paper)",
        f"in {sum(run.corrected is True for run in runs)} of {len(runs)} runs",
        all(run.corrected is True for run in runs),
    )
