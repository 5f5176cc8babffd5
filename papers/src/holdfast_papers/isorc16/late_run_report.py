"""ISORC'16's Table 4 and Figures 6 to 9 as parts of a page, with the paper's figures."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.report import FAINT, SERIES, cards, draw_svg, heading, paragraph, table
from holdfast_papers.isorc16.late_run_findings import CPU, DOWNLOAD, TABLE_SHARE, UPLOAD, paper_cell
from holdfast_papers.isorc16.late_runs import EVERY_S, FOR_S, SERVERS, SETTINGS, SHARES, LateRun
from holdfast_papers.isorc16.seed_runs import Cells, group_runs, ratio

USED: Mapping[str, Callable[[LateRun], float]] = {
    "CPU (s)": lambda run: run.usage.cpu_s,
    "memory (MiB)": lambda run: run.usage.memory_bytes / 2**20,
    "written (MiB)": lambda run: run.usage.written_bytes / 2**20,
    "read (MiB)": lambda run: run.usage.read_bytes / 2**20,
}
"""The resources of Figure 9."""


def late_parts(runs: Sequence[LateRun], *, about: str) -> list[str]:
    """Return the parts of the page that follow the findings."""
    cells = group_runs(runs)
    first_seed = {cell: {name: next(iter(f[name].by_seed.values())) for name in f} for cell, f in cells.items()}
    shares = ", ".join(f"{name}: {share:.0%}" for name, share in SHARES.items())
    return [
        heading("Table 4: end-to-end time under faults"),
        paragraph(
            f"Every {EVERY_S:g} s a share of the PEs ({shares}, at least one) sleeps for {FOR_S:g} s, the same PEs at the same "
            "moments in every setting. Time runs from an epoch's close to its first output at the sink, from the first stall on. "
            f"{about} Medians over the seeds, and in brackets the least and greatest seed. The abstract's 61 % less is 39 % of "
            f"upstream backup's time; Table 4 itself yields {TABLE_SHARE:.0%}. The paper counts milliseconds per tuple, from its "
            "input, on up to 7 virtual machines; here tuples travel in epochs, and wait half an epoch for its close on average. So "
            "compare one setting with another."
        ),
        table(*_table_4(cells)),
        heading("Figures 6 and 7: end-to-end time over the run"),
        paragraph("The first seed of each cell."),
        cards([_over_time(runs_of, cell.name) for cell, runs_of in first_seed.items()]),
        heading("Figure 8: throughput"),
        cards([_throughput(runs_of, cell.name) for cell, runs_of in first_seed.items()]),
        heading("Figure 9: resources"),
        paragraph(
            f"The paper: prediction uses {100 * CPU:.0f} % more CPU than the others; memory is 6 to 9 % of a machine's in all "
            f"settings; prediction uploads {-100 * UPLOAD:.0f} % and downloads {-100 * DOWNLOAD:.0f} % less than upstream backup, "
            "which sends just under 7 MiB. Here: CPU, memory and bytes written and read, of the log and of other files, by PE "
            "hosts with their JVMs and by agents; a library that several processes share counts as memory of each."
        ),
        cards([_used(cells, what, of) for what, of in USED.items()]),
        table(*_resources(cells)),
        heading("What was predicted, and how often it was within 5 % of the truth"),
        table(*_accuracies(runs)),
    ]


def scaled(runs: Sequence[LateRun]) -> str:
    """Describe how the paper's experiment was scaled to this machine."""
    cores = os.cpu_count() or 1
    epochs = ", ".join(f"{each:g} s" for each in sorted({run.epoch_s for run in runs}))
    data = ", ".join(f"{name} {count} reports an epoch" for name, count in SERVERS.items())
    return f"Scaled to this machine: {cores} cores, 2 nodes, epochs of {epochs}, a deadline of one epoch, {data}."


def _table_4(cells: Cells) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = (
        "cell",
        "setting",
        "average (s)",
        "from a tuple's arrival",
        "longest (s)",
        "of upstream's average",
        "paper: average, longest (ms)",
        "not exact at first",
        "seeds",
        "load",
    )
    rows: list[tuple[str, ...]] = []
    for cell, settings in cells.items():
        paper = paper_cell(cell)
        for setting in (name for name in SETTINGS if name in settings):
            runs = settings[setting]
            has_rival = "upstream" in settings
            share = ratio({cell: settings}, setting, "upstream", lambda run: run.average_s).text(".0%") if has_rival else "-"
            paper_text = f"{paper[setting][0]:g}, {paper[setting][1]:g}" if setting in paper else "-"
            times = [runs.of(v).text(".2f") for v in (_average, lambda run: run.tuple_average_s, lambda run: run.worst_s)]
            inexact, load = runs.of(_inexact_share).text(".0%"), runs.of(lambda run: run.load).text("g")
            rows.append((cell.name, setting, *times, share, paper_text, inexact, str(len(runs.by_seed)), load))
    return columns, rows


def _average(run: LateRun) -> float:
    return run.average_s


def _inexact_share(run: LateRun) -> float:
    return sum(n for quality, n in run.qualities.items() if quality != "exact") / len(run.latencies_s)


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


def _used(cells: Cells, what: str, of: Callable[[LateRun], float]) -> str:
    """Draw the median of a resource by cell and setting."""
    settings = [name for name in SETTINGS if any(name in settings_of for settings_of in cells.values())]

    def draw(axes: Any) -> None:
        width = 0.8 / len(settings)
        for number, name in enumerate(settings):
            value_at = {
                place + number * width: settings_of[name].of(of).median
                for place, settings_of in enumerate(cells.values())
                if name in settings_of
            }
            axes.barh(list(value_at), list(value_at.values()), width, color=SERIES[number % len(SERIES)], label=name)
        axes.set_yticks([place + 0.4 for place in range(len(cells))], [cell.name for cell in cells])
        axes.invert_yaxis()
        axes.set(title=what)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)

    return draw_svg(draw, label=f"{what}, by cell and setting", height=1.6 + 0.5 * len(cells))


def _resources(cells: Cells) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = ("cell", "setting", *(part for what in USED for part in (what, "of upstream's")), "of the CPU agents (s)", "accuracy")
    rows: list[tuple[str, ...]] = []
    for cell, settings in cells.items():
        for setting in (name for name in SETTINGS if name in settings):
            runs, figures = settings[setting], list[str]()
            for of in USED.values():
                share = ratio({cell: settings}, setting, "upstream", of).text(".0%") if "upstream" in settings else "-"
                figures += [runs.of(of).text(".0f"), share]
            agents = runs.of(lambda run: run.usage.agents_cpu_s).text(".1f")
            known = all(run.accuracy is not None for run in runs.by_seed.values()) and setting == "prediction"
            accuracy = runs.of(lambda run: run.accuracy or 0.0).text(".1%") if known else "-"
            rows.append((cell.name, setting, *figures, agents, accuracy))
    return columns, rows


def _accuracies(runs: Sequence[LateRun]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    predicted_runs = [run for run in runs if run.by_column and run.setting == "prediction"]
    names = sorted({name for run in predicted_runs for name in run.by_column})
    shares = [(name, *(f"{run.by_column[name]:.1%}" if name in run.by_column else "-" for run in predicted_runs)) for name in names]
    return ("column", *(f"{run.cell.name}, seed {run.seed}" for run in predicted_runs)), shares
