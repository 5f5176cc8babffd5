"""The real runs of holdfast reproduce isorc16: which cells, what is kept of them, and how it is told."""

import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.app import example_path
from holdfast.cli import end_in_order
from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say

if TYPE_CHECKING:
    from holdfast_papers.isorc16.late_runs import Cell, LateRun

APPLICATION = "datacenter_monitor.py"
KEPT = "runs.jsonl"


def chosen_cells(text: str | None, *, full: bool) -> "list[Cell]":
    """The cells to run: those named, all of them, or the two that differ most."""
    from holdfast_papers.isorc16.late_runs import SERVERS, SHARES, Cell

    every = [Cell(pes, fault, data) for pes in (5, 9) for fault in SHARES for data in SERVERS]  # type: ignore[arg-type]  # sizes
    if text is None:
        return every if full else [cell for cell in every if (cell.pes, cell.data) == (5, "medium")]
    names = {cell.short: cell for cell in every}
    wanted = _named(text)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise HoldfastError(f"--cells: there is no cell '{unknown[0]}'; cells are: {', '.join(names)}")
    return [names[name] for name in wanted]


def chosen_settings(text: str | None, *, full: bool) -> list[str]:
    """The settings to compare; upstream backup at the deadline, which the paper has not, only when asked for."""
    from holdfast_papers.isorc16.late_runs import SETTINGS

    if text is None:
        return [name for name in SETTINGS if full or name != "upstream at the deadline"]
    wanted = _named(text)
    unknown = [name for name in wanted if name not in SETTINGS]
    if unknown:
        raise HoldfastError(f"--settings: there is no setting '{unknown[0]}'; settings are: {', '.join(SETTINGS)}")
    return [name for name in SETTINGS if name in wanted]


def _named(text: str) -> list[str]:
    """What stands between commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def check_lengths(epoch_s: float, seconds: float) -> None:
    """Raise HoldfastError for runs that are too short to show anything, or have no end."""
    from holdfast_papers.isorc16.late_runs import FOR_S, WARM_S

    if not 0.2 <= epoch_s <= 5:
        raise HoldfastError(f"--epoch wants 0.2 to 5 seconds, got {epoch_s:g}")
    if not (math.isfinite(seconds) and seconds >= WARM_S + 2 * FOR_S):
        raise HoldfastError(f"--seconds wants at least {WARM_S + 2 * FOR_S:g}: one stall after warming up, got {seconds:g}")


def late_runs(
    out: Path, cells: "Sequence[Cell]", settings: Sequence[str], *, epoch_s: float, seconds: float, seed: int
) -> "list[LateRun]":
    """Run the cells that are not kept whole in `out` yet, and return what is kept there of these cells.

    Settings are compared, so all of a cell run one after the other on one cluster: a cell that was interrupted is run again. Runs
    of another length, epoch or seed are left aside.
    """
    check_lengths(epoch_s, seconds)
    end_in_order()
    out.mkdir(parents=True, exist_ok=True)
    had = _kept(out, settings, epoch_s=epoch_s, seconds=seconds, seed=seed)
    left = [cell for cell in cells if cell not in had]
    if len(left) < len(cells):
        say(f"{len(cells) - len(left)} of {len(cells)} cells are kept in {out / KEPT}")
    if left:
        _run(out, left, settings, epoch_s=epoch_s, seconds=seconds, seed=seed)
    had = _kept(out, settings, epoch_s=epoch_s, seconds=seconds, seed=seed)
    return [run for cell in cells for run in had[cell]]


def _run(out: Path, cells: "Sequence[Cell]", settings: Sequence[str], *, epoch_s: float, seconds: float, seed: int) -> None:
    """Run cells one after the other, keep what each setting came to, and show how far they are."""
    from holdfast_papers.isorc16.late_runs import cell_s, run_cell

    each_s = cell_s(settings, seconds=seconds)
    with progress_bar("seconds of runs") as progress:
        for number, cell in enumerate(cells):
            said = f"a minute to warm up, then {', '.join(settings)}, {seconds:g} s each ..."
            say(f"{cell.name} ({number + 1} of {len(cells)}): {said}")

            def passed(passed_s: float, number: int = number) -> None:
                progress(int(number * each_s + passed_s), int(len(cells) * each_s))

            with tempfile.TemporaryDirectory(prefix="holdfast-isorc16-") as work:
                run_cell(
                    cell,
                    settings,
                    example=example_path(APPLICATION),
                    work=Path(work),
                    epoch_s=epoch_s,
                    seconds=seconds,
                    seed=seed,
                    done=lambda run: _keep(out, run),
                    progress=passed,
                )


def _keep(out: Path, run: "LateRun") -> None:
    say(f"  {run.setting}: {run.average_s:.2f} s on average, {run.worst_s:.2f} s at most")
    with (out / KEPT).open("a") as file:
        file.write("\n" + json.dumps(run.document()) + "\n")  # a line that a kill cut short ends here


def _kept(out: Path, settings: Sequence[str], *, epoch_s: float, seconds: float, seed: int) -> "dict[Cell, list[LateRun]]":
    """The runs of each cell that the last cluster made which ran all these settings as they are asked for now.

    What a kill cut short is left out. Raises HoldfastError for a file that is not of runs.
    """
    from holdfast_papers.isorc16.late_runs import SETTINGS, LateRun

    made: dict[tuple[Cell, str | None], dict[str, LateRun]] = {}
    for number, line in enumerate(_lines(out / KEPT), 1):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        try:
            run = LateRun.of(document)
        except (KeyError, TypeError, ValueError) as error:
            raise HoldfastError(
                f"'{out / KEPT}', line {number}, is no run that this version keeps ({type(error).__name__}: {error}); "
                "move the file away, or give another --out"
            ) from error
        if (run.epoch_s, run.seconds, run.seed) == (epoch_s, seconds, seed):
            made.setdefault((run.cell, run.cluster), {})[run.setting] = run
    return {
        cell: [runs[name] for name in SETTINGS if name in runs]
        for (cell, _), runs in made.items()
        if all(name in runs for name in settings)
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"'{path}' cannot be read: {error}; move it away, or give another --out") from error
