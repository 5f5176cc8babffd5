"""The real runs of holdfast reproduce isorc16: selects cells, runs them and stores their records."""

import json
import math
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.app import example_path
from holdfast.cli import exit_on_signals
from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say

if TYPE_CHECKING:
    from holdfast_papers.isorc16.late_runs import Cell, LateRun

APPLICATION = "datacenter_monitor.py"
RUN_FILE = "runs.jsonl"


def chosen_cells(text: str | None, *, full: bool) -> "list[Cell]":
    """Return the cells to run: the named ones, all of them (`full`), or the two with 5 PEs and medium input."""
    from holdfast_papers.isorc16.late_runs import SERVERS, SHARES, Cell

    all_cells = [Cell(pes, fault, data) for pes in (5, 9) for fault in SHARES for data in SERVERS]  # type: ignore[arg-type]  # sizes
    if text is None:
        return all_cells if full else [cell for cell in all_cells if (cell.pes, cell.data) == (5, "medium")]
    names = {cell.short: cell for cell in all_cells}
    requested = _split(text)
    unknown = [name for name in requested if name not in names]
    if unknown:
        raise HoldfastError(f"--cells: unknown cell '{unknown[0]}'; cells are: {', '.join(names)}")
    return [names[name] for name in requested]


def chosen_settings(text: str | None) -> list[str]:
    """Return the settings to compare: the named ones, or all."""
    from holdfast_papers.isorc16.late_runs import SETTINGS

    if text is None:
        return list(SETTINGS)
    requested = _split(text)
    unknown = [name for name in requested if name not in SETTINGS]
    if unknown:
        raise HoldfastError(f"--settings: unknown setting '{unknown[0]}'; settings are: {', '.join(SETTINGS)}")
    return [name for name in SETTINGS if name in requested]


def _split(text: str) -> list[str]:
    """Split a text at commas and remove duplicates."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def check_lengths(epoch_s: float, seconds: float) -> None:
    """Raise HoldfastError for runs that are too short or infinite."""
    from holdfast_papers.isorc16.late_runs import FOR_S, WARM_S

    if not 0.2 <= epoch_s <= 5:
        raise HoldfastError(f"--epoch must be from 0.2 to 5 seconds, got {epoch_s:g}")
    if not (math.isfinite(seconds) and seconds >= WARM_S + 2 * FOR_S):
        raise HoldfastError(f"--seconds must be at least {WARM_S + 2 * FOR_S:g}, for one stall after the warm-up; got {seconds:g}")


def late_runs(
    out: Path, cells: "Sequence[Cell]", settings: Sequence[str], *, epoch_s: float, seconds: float, seeds: Sequence[int]
) -> "list[LateRun]":
    """Run every setting of every cell with every seed, unless that run is in `out` already. Return all these runs.

    The runs of a cell and seed follow each other on one cluster. Runs of another length, epoch or seed are ignored.
    """
    check_lengths(epoch_s, seconds)
    exit_on_signals()
    out.mkdir(parents=True, exist_ok=True)
    keys = [RunKey(cell, seed, setting) for cell in cells for seed in seeds for setting in settings]
    runs = _read_runs(out, epoch_s=epoch_s, seconds=seconds)
    missing = [key for key in keys if key not in runs]
    if len(missing) < len(keys):
        say(f"{len(keys) - len(missing)} of {len(keys)} runs are in {out / RUN_FILE} already")
    if missing:
        _run(out, missing, epoch_s=epoch_s, seconds=seconds)
        runs = _read_runs(out, epoch_s=epoch_s, seconds=seconds)
    return [runs[key] for key in keys]


class RunKey(NamedTuple):
    """What identifies a run of one length and epoch."""

    cell: "Cell"
    seed: int
    setting: str


def _run(out: Path, missing: Sequence[RunKey], *, epoch_s: float, seconds: float) -> None:
    """Make the missing runs, store each when it ends, and show the progress."""
    from holdfast_papers.isorc16.late_runs import cell_s, run_cell

    groups = [(cell, seed, [key.setting for key in group]) for (cell, seed), group in groupby(missing, key=lambda key: key[:2])]
    total_s = sum(cell_s(settings, seconds=seconds) for _, _, settings in groups)
    before_s = 0.0
    with progress_bar("seconds of runs") as progress:
        for number, (cell, seed, settings) in enumerate(groups, 1):
            plan = f"a minute of warm-up, then {', '.join(settings)}, {seconds:g} s each ..."
            say(f"{cell.name}, seed {seed} ({number} of {len(groups)}): {plan}")

            def passed(passed_s: float, before_s: float = before_s) -> None:
                progress(int(before_s + passed_s), int(total_s))

            with tempfile.TemporaryDirectory(prefix="holdfast-isorc16-") as work:
                run_cell(
                    cell,
                    settings,
                    example=example_path(APPLICATION),
                    work=Path(work),
                    epoch_s=epoch_s,
                    seconds=seconds,
                    seed=seed,
                    done=lambda run: _store(out, run),
                    progress=passed,
                )
            before_s += cell_s(settings, seconds=seconds)


def _store(out: Path, run: "LateRun") -> None:
    say(f"  {run.setting}: {run.average_s:.2f} s on average, {run.worst_s:.2f} s at most")
    with (out / RUN_FILE).open("a") as file:
        file.write("\n" + json.dumps(run.document()) + "\n")  # ends a line that a kill cut short


def _read_runs(out: Path, *, epoch_s: float, seconds: float) -> "dict[RunKey, LateRun]":
    """Return the stored runs of this length and epoch; of equal ones the last.

    Ignores lines that a kill cut short. Raises HoldfastError for a file of something else.
    """
    from holdfast_papers.isorc16.late_runs import LateRun

    runs: dict[RunKey, LateRun] = {}
    for number, line in enumerate(_lines(out / RUN_FILE), 1):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        try:
            run = LateRun.of(document)
        except (KeyError, TypeError, ValueError) as error:
            raise HoldfastError(
                f"'{out / RUN_FILE}', line {number}, is not a run of this version ({type(error).__name__}: {error}); "
                "move the file away, or give another --out"
            ) from error
        if (run.epoch_s, run.seconds) == (epoch_s, seconds) and run.seed is not None:
            runs[RunKey(run.cell, run.seed, run.setting)] = run
    return runs


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"'{path}' cannot be read: {error}; move it away, or give another --out") from error
