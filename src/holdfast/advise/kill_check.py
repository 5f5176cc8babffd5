"""What an advice states, held against a run with real kills."""

import shutil
from datetime import datetime, timedelta
from math import isnan
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.advise.advice import Advice
from holdfast.advise.loop import SINGLE
from holdfast.advise.verification import Stated, Verified, progress_of, run_s, seconds_for, verify
from holdfast.app import App
from holdfast.assess.assessment import Assessment
from holdfast.assess.campaign import Campaign
from holdfast.assess.output_score import OutputScore
from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say


def state_costs(advice: Advice, campaigns: dict[str, tuple[Campaign, Assessment]], *, trace_s: float) -> dict[str, Stated]:
    """What the trials on a trace of this length showed of everything with a replica, and of the costliest that has none.

    Of what was not tried, because nothing of it reaches the scored output, there is nothing to state.
    """
    held = advice.chosen.candidate.protected
    (again,) = (assessed for folder, (_, assessed) in campaigns.items() if folder != SINGLE)
    alone, over = ({view.case: view for view in assessed.cases} for assessed in (campaigns[SINGLE][1], again))
    cases = {name: over[advice.failing_over[name].case] for name in held if advice.failing_over[name].case in over}
    others = [name for name in advice.ranking if name not in held and advice.single[name].case in alone]
    cases |= {name: alone[advice.single[name].case] for name in others[:1]}
    qualities = {name: [each for scores in view.repeated for each in scores if not isnan(each)] for name, view in cases.items()}
    costs_s = {name: view.lost() * trace_s for name, view in cases.items()}
    return {name: Stated(name in held, min(found), max(found), costs_s[name]) for name, found in qualities.items() if found}


def verify_by_kills(
    spark: SparkSession,
    app_file: Path,
    app: App,
    frames: dict[str, DataFrame],
    stated: dict[str, Stated],
    *,
    score: OutputScore,
    out: Path,
) -> Verified:
    """Run the beginning of the trace with the plan and with real kills; how that compares with what was stated."""

    def scored(rows: pa.Table) -> float:
        (found,) = spark.createDataFrame(rows).agg(F.expr(score.expression)).collect()[0]
        return float(found or 0.0)

    work = out / "verify"
    trace = _write_beginning(frames, work / "trace", kills=len(stated), epoch_s=app.epoch_s)
    kills = len(stated)
    say(f"running the application with {kills} real kills, which takes {run_s(kills):.0f} s and the time to start it ...")
    with progress_bar("seconds of the run") as bar:
        show = progress_of(kills, bar)
        return verify(app_file, trace, out / "plan.json", work, stated=stated, sink=score.sink, score=scored, show=show)


def trace_span(frames: dict[str, DataFrame]) -> tuple[datetime, datetime]:
    """When the first and the last tuple of a trace came."""
    spans = [frame.agg(F.min("time"), F.max("time")).collect()[0] for frame in frames.values()]
    return min(first for first, _ in spans), max(last for _, last in spans)


def _write_beginning(frames: dict[str, DataFrame], folder: Path, *, kills: int, epoch_s: float) -> Path:
    """The first seconds of a trace, as long as so many kills need, as a run takes it. Raises HoldfastError for a shorter trace."""

    shutil.rmtree(folder.parent, ignore_errors=True)
    begins, ends = trace_span(frames)
    wanted_s = seconds_for(kills, epoch_s)
    if (ends - begins).total_seconds() < wanted_s:
        raise HoldfastError(
            f"--verify: {kills} kills need {wanted_s:g} s of trace, and it has {(ends - begins).total_seconds():.0f} s; give a "
            "longer trace or a smaller --budget (the advice itself has been written)"
        )
    for name, frame in frames.items():
        until = begins + timedelta(seconds=wanted_s)
        frame.where(F.col("time") < F.lit(until)).coalesce(1).write.parquet(str(folder / f"{name}.parquet"))
    return folder if len(frames) > 1 else folder / f"{next(iter(frames))}.parquet"
