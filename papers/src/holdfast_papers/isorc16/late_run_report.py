"""ISORC'16's Table 4 and Figures 6 to 9 as parts of a page, with the paper's figures."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.report import FAINT, SERIES, cards, draw_svg, heading, paragraph, table
from holdfast_papers.isorc16.late_run_findings import CPU, NETWORK, by_cell, paper_cell
from holdfast_papers.isorc16.late_runs import EVERY_S, FOR_S, SERVERS, SETTINGS, SHARES, LateRun, Usage

USED: Mapping[str, Callable[[Usage], float]] = {
    "CPU (s)": lambda used: used.cpu_s,
    "memory (MiB)": lambda used: used.memory_bytes / 2**20,
    "written (MiB)": lambda used: used.written_bytes / 2**20,
}
"""The resources of Figure 9."""


def late_parts(runs: Sequence[LateRun], *, about: str) -> list[str]:
    """Return the parts of the page that follow the findings."""
    cells = by_cell(runs)
    shares = ", ".join(f"{name}: {share:.0%}" for name, share in SHARES.items())
    return [
        heading("Table 4: end-to-end time under faults"),
        paragraph(
            f"Every {EVERY_S:g} s a share of the PEs ({shares}, at least one) sleeps for {FOR_S:g} s, the same PEs at the same "
            "moments in every setting. Time runs from an epoch's close to its first output at the sink, from the first stall on. "
            f"{about} The paper counts milliseconds per tuple, from its input, on up to 7 virtual machines; here tuples travel in "
            "epochs, and wait half an epoch for its close on average. So compare one setting with another."
        ),
        table(*_table_4(cells)),
        heading("Figures 6 and 7: end-to-end time over the run"),
        cards([_over_time(runs_of, cell.name) for cell, runs_of in cells.items()]),
        heading("Figure 8: throughput"),
        cards([_throughput(runs_of, cell.name) for cell, runs_of in cells.items()]),
        heading("Figure 9: resources"),
        paragraph(
            f"The paper: prediction uses {100 * CPU:.0f} % more CPU than the others; memory is 6 to 9 % of a machine's in all "
            f"settings; prediction uploads {-100 * NETWORK:.0f} % and downloads 35 % less than upstream backup, which sends just "
            "under 7 MiB. Here: CPU, memory and bytes written, to the log and elsewhere, of PE hosts with their JVMs and of "
            "agents; a library that several processes share counts as memory of each."
        ),
        cards([_used(cells, what, of) for what, of in USED.items()]),
        table(*_resources(runs)),
        heading("What was predicted, and how often it was within 5 % of the truth"),
        table(*_accuracies(runs)),
    ]


def scaled(runs: Sequence[LateRun]) -> str:
    """Describe how the paper's experiment was scaled to this machine."""
    cores = os.cpu_count() or 1
    epochs = ", ".join(f"{each:g} s" for each in sorted({run.epoch_s for run in runs}))
    data = ", ".join(f"{name} {count} reports an epoch" for name, count in SERVERS.items())
    return f"Scaled to this machine: {cores} cores, 2 nodes, epochs of {epochs}, a deadline of one epoch, {data}."


def _table_4(cells: Any) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = (
        "cell",
        "setting",
        "average (s)",
        "from a tuple's arrival",
        "longest (s)",
        "of upstream's average",
        "paper: average, longest (ms)",
        "not exact at first",
        "load",
    )
    rows: list[tuple[str, ...]] = []
    for cell, runs_of in cells.items():
        paper = paper_cell(cell)
        for setting in SETTINGS:
            if setting not in runs_of:
                continue
            run = runs_of[setting]
            share = f"{run.average_s / runs_of['upstream'].average_s:.0%}" if "upstream" in runs_of else "-"
            paper_text = f"{paper[setting][0]:g}, {paper[setting][1]:g}" if setting in paper else "-"
            inexact = f"{sum(n for quality, n in run.qualities.items() if quality != 'exact')} of {len(run.latencies_s)}"
            averages = (f"{run.average_s:.2f}", f"{run.tuple_average_s:.2f}")
            figures = (*averages, f"{run.worst_s:.2f}", share, paper_text, inexact, f"{run.load:g}")
            rows.append((cell.name, setting, *figures))
    return columns, rows


def _over_time(runs_of: Any, name: str) -> str:
    def draw(axes: Any) -> None:
        for at_s, _ in next(iter(runs_of.values())).stalls:
            axes.axvspan(at_s, at_s + FOR_S, color=FAINT, alpha=0.25, linewidth=0)
        for number, (setting, run) in enumerate(runs_of.items()):
            axes.plot(run.times_s, run.latencies_s, color=SERIES[number % len(SERIES)], label=setting)
        axes.set(xlabel="epoch's close (s)", ylabel="to its output (s)", title=name)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)

    return draw_svg(draw, label=f"end-to-end time over the run: {name}", height=3.5)


def _throughput(runs_of: Any, name: str) -> str:
    def draw(axes: Any) -> None:
        for number, (setting, run) in enumerate(runs_of.items()):
            axes.step(range(len(run.rows_s)), run.rows_s, where="post", color=SERIES[number % len(SERIES)], label=setting)
        axes.set(xlabel="time (s)", ylabel="rows out per second", title=name)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)

    return draw_svg(draw, label=f"throughput over the run: {name}", height=3.5)


def _used(cells: Any, what: str, of: Callable[[Usage], float]) -> str:
    """Draw a resource by cell and setting."""
    settings = [name for name in SETTINGS if any(name in runs_of for runs_of in cells.values())]

    def draw(axes: Any) -> None:
        width = 0.8 / len(settings)
        for number, name in enumerate(settings):
            value_at = {
                place + number * width: of(runs_of[name].usage) for place, runs_of in enumerate(cells.values()) if name in runs_of
            }
            axes.barh(list(value_at), list(value_at.values()), width, color=SERIES[number % len(SERIES)], label=name)
        axes.set_yticks([place + 0.4 for place in range(len(cells))], [cell.name for cell in cells])
        axes.invert_yaxis()
        axes.set(title=what)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)

    return draw_svg(draw, label=f"{what}, by cell and setting", height=1.6 + 0.5 * len(cells))


def _resources(runs: Sequence[LateRun]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = (
        "cell",
        "setting",
        "CPU (s)",
        "against upstream's",
        "of it agents (s)",
        "memory (MiB)",
        "written (MiB)",
        "against upstream's",
        "accuracy of predictions",
    )
    rows: list[tuple[str, ...]] = []
    cells = by_cell(runs)
    for run in runs:
        used = run.usage
        rival = cells[run.cell]["upstream"].usage if "upstream" in cells[run.cell] else Usage()
        accuracy = "-" if run.accuracy is None or run.setting != "prediction" else f"{run.accuracy:.1%}"
        cpu, written = (_against(used, rival, USED[what]) for what in ("CPU (s)", "written (MiB)"))
        sizes = (f"{used.memory_bytes >> 20}", f"{used.written_bytes >> 20}", written)
        figures = (f"{used.cpu_s:.0f}", cpu, f"{used.agents_cpu_s:.1f}", *sizes, accuracy)
        rows.append((run.cell.name, run.setting, *figures))
    return columns, rows


def _against(used: Usage, rival: Usage, of: Callable[[Usage], float]) -> str:
    return f"{of(used) / of(rival) - 1:+.0%}" if of(rival) else "-"


def _accuracies(runs: Sequence[LateRun]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    predicted_runs = [run for run in runs if run.by_column and run.setting == "prediction"]
    names = sorted({name for run in predicted_runs for name in run.by_column})
    shares = [(name, *(f"{run.by_column[name]:.1%}" if name in run.by_column else "-" for run in predicted_runs)) for name in names]
    return ("column", *(run.cell.name for run in predicted_runs)), shares
