"""Check the stated costs of an advice against a run with real kills."""

import shutil
from datetime import datetime, timedelta
from math import isnan
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.advise.advice import Advice
from holdfast.advise.loop import SINGLE
from holdfast.advise.verification import StatedCost, Verified, progress_of, run_s, seconds_for, verify
from holdfast.app import App
from holdfast.assess.assessment import Assessment
from holdfast.assess.campaign import Campaign
from holdfast.assess.output_score import OutputScore
from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say


def state_costs(advice: Advice, campaigns: dict[str, tuple[Campaign, Assessment]], *, trace_s: float) -> dict[str, StatedCost]:
    """Return the cost, measured by trials, of each protected unit's failure and of the costliest unprotected unit's failure.

    Units that were not tried, because their tuples do not reach the scored output, have no stated cost.
    """
    protected = advice.chosen.candidate.protected
    (again,) = (assessed for folder, (_, assessed) in campaigns.items() if folder != SINGLE)
    alone, over = ({view.case: view for view in assessed.cases} for assessed in (campaigns[SINGLE][1], again))
    cases = {name: over[advice.failing_over[name].case] for name in protected if advice.failing_over[name].case in over}
    others = [name for name in advice.ranking if name not in protected and advice.single[name].case in alone]
    cases |= {name: alone[advice.single[name].case] for name in others[:1]}
    qualities = {name: [each for scores in view.repeated for each in scores if not isnan(each)] for name, view in cases.items()}
    costs_s = {name: view.lost() * trace_s for name, view in cases.items()}
    return {
        name: StatedCost(name in protected, min(values), max(values), costs_s[name]) for name, values in qualities.items() if values
    }


def verify_by_kills(
    spark: SparkSession,
    app_file: Path,
    app: App,
    frames: dict[str, DataFrame],
    stated: dict[str, StatedCost],
    *,
    score: OutputScore,
    out: Path,
) -> Verified:
    """Run the beginning of the trace with the plan, kill the units in `stated`, and return the comparison with the stated costs."""

    def scored(rows: pa.Table) -> float:
        (value,) = spark.createDataFrame(rows).agg(F.expr(score.expression)).collect()[0]
        return float(value or 0.0)

    work = out / "verify"
    trace = _write_beginning(frames, work / "trace", kills=len(stated), epoch_s=app.epoch_s)
    kills = len(stated)
    say(f"running the application with {kills} real kills, which takes {run_s(kills):.0f} s and the time to start it ...")
    with progress_bar("seconds of the run") as bar:
        show = progress_of(kills, bar)
        return verify(app_file, trace, out / "plan.json", work, stated=stated, sink=score.sink, score=scored, show=show)


def trace_span(frames: dict[str, DataFrame]) -> tuple[datetime, datetime]:
    """Return the times of the first and the last tuple of a trace."""
    spans = [frame.agg(F.min("time"), F.max("time")).collect()[0] for frame in frames.values()]
    return min(first for first, _ in spans), max(last for _, last in spans)


def _write_beginning(frames: dict[str, DataFrame], folder: Path, *, kills: int, epoch_s: float) -> Path:
    """Write the beginning of a trace, as long as the kills need, and return its path; HoldfastError if the trace is shorter."""

    shutil.rmtree(folder.parent, ignore_errors=True)
    begins, ends = trace_span(frames)
    needed_s = seconds_for(kills, epoch_s)
    if (ends - begins).total_seconds() < needed_s:
        raise HoldfastError(
            f"--verify: {kills} kills need {needed_s:g} s of trace, and it has {(ends - begins).total_seconds():.0f} s; give a "
            "longer trace or a smaller --budget (the advice itself has been written)"
        )
    for name, frame in frames.items():
        until = begins + timedelta(seconds=needed_s)
        frame.where(F.col("time") < F.lit(until)).coalesce(1).write.parquet(str(folder / f"{name}.parquet"))
    return folder if len(frames) > 1 else folder / f"{next(iter(frames))}.parquet"
