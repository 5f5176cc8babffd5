"""Golden runs: the output without a fault. A non-deterministic application has one per arrival order."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.assess.campaign_context import CampaignContext, TraceKey
from holdfast.assess.fault_reach import Reach
from holdfast.assess.keyed_seqs import Floats, Ints, KeyedSeqs
from holdfast.assess.output_score import part_value, parts_of
from holdfast.assess.sections import Sections
from holdfast.documents.whole_files import write_whole
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.errors import HoldfastError

Parts = Mapping[str, Floats]
"""For each part of a score, one number per section."""


@dataclass(frozen=True)
class Outputs:
    """The contribution of every output row of a golden run to the score parts, by key and seq."""

    rows: KeyedSeqs
    values: Parts

    def within(self, reach: Reach, sections: Sections) -> tuple[Ints, dict[str, Floats]]:
        """Return the sections of the output rows that a fault can change, and the sums of their parts."""
        at = self.rows.selected(reach.keys, reach.first, reach.last)
        if not len(at):
            return np.zeros(0, np.int64), {part: np.zeros(0) for part in self.values}
        numbers = sections.of(self.rows.seqs_at(at))
        low = int(numbers.min())
        occupied = np.flatnonzero(np.bincount(numbers - low)).astype(np.int64)
        return occupied + low, {part: _sums(numbers - low, values[at])[occupied] for part, values in self.values.items()}


@dataclass(frozen=True)
class Golden:
    """One golden run: the score parts of its sections, and its output rows if batched trials are compared with them."""

    seed: int
    parts: Parts
    outputs: Outputs | None = None


def run_golden(context: CampaignContext, seed: int, *, outputs: bool) -> Golden:
    """Run the application without a fault. `outputs` keeps the contribution of each row, which needs additive scores."""
    frame = context.golden_output(seed)
    scored = " and ".join(score.expression for score in context.scores)
    with naming_failed_operator(context.graph, f"a golden run, scored by {scored},"):
        if not outputs:
            return Golden(seed, section_parts(context, frame))
        parts = parts_of(context.scores)
        table = frame.select("seq", *(F.expr(part_value(part)).alias(f"p{n}") for n, part in enumerate(parts))).toArrow()
    return _with_outputs(context, seed, table)


def save_golden(golden: Golden, path: Path) -> None:
    """Write a golden run to a file atomically."""
    arrays: dict[str, Any] = {f"part {part}": values for part, values in golden.parts.items()}
    if golden.outputs is not None:
        rows = golden.outputs.rows
        arrays |= {"codes": rows.codes, "span": np.array([rows.span]), "base": np.array([rows.base])}
        arrays |= {f"value {part}": values for part, values in golden.outputs.values.items()}
    write_whole(path, lambda file: np.savez(file, allow_pickle=False, seed=np.array([golden.seed]), **arrays))


def load_golden(path: Path) -> Golden:
    """Read a golden run that `save_golden` wrote; HoldfastError if the file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            parts = {name.removeprefix("part "): arrays[name] for name in arrays.files if name.startswith("part ")}
            values = {name.removeprefix("value "): arrays[name] for name in arrays.files if name.startswith("value ")}
            if "codes" not in arrays.files:
                return Golden(int(arrays["seed"][0]), parts)
            rows = KeyedSeqs(arrays["codes"], int(arrays["span"][0]), int(arrays["base"][0]))
            return Golden(int(arrays["seed"][0]), parts, Outputs(rows, values))
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise HoldfastError(f"results file '{path}' is damaged; remove it; the same command then repeats the golden run") from error


def section_parts(context: CampaignContext, output: DataFrame) -> dict[str, Floats]:
    """Return the score parts of every section. A section without rows has 0, or nan for a score that is not additive."""
    parts = parts_of(context.scores)
    section = context.sections.column(F.col("seq")).alias("section")
    columns = [F.expr(f"cast({part} as double)").alias(f"p{n}") for n, part in enumerate(parts)]
    table = output.groupBy(section).agg(*columns).toArrow()
    additive = {part for score in context.scores if score.additive for part in score.parts}
    return {
        part: part_numbers(context, part, table["section"].to_numpy(), table[f"p{n}"], missing=0.0 if part in additive else np.nan)
        for n, part in enumerate(parts)
    }


def part_numbers(context: CampaignContext, part: str, sections: Ints, column: pa.ChunkedArray, *, missing: float) -> Floats:
    """Return the part in every section: its value in `sections`, and `missing` elsewhere; HoldfastError if not finite."""
    require_numbers(context, part, sections, pc.fill_null(column, 0.0).to_numpy())
    values = np.full(context.sections.count, missing)
    values[sections] = pc.fill_null(column, missing).to_numpy()
    return values


def require_numbers(context: CampaignContext, part: str, sections: Ints, values: Floats) -> None:
    """Raise HoldfastError unless the part is a finite number in all these sections."""
    wrong = np.flatnonzero(~np.isfinite(values))
    if not len(wrong):
        return
    at = wrong[np.argmin(sections[wrong])]
    score = next(score.expression for score in context.scores if part in score.parts)
    begin = context.sections.origin + int(sections[at]) * context.sections.length
    value = "no number (nan)" if np.isnan(values[at]) else "infinite"
    raise HoldfastError(
        f"the score '{score}' is {value} in the section of seqs {begin:,} to {begin + context.sections.length - 1:,}; every "
        "section needs a finite one: score other values, or leave such rows out of the output"
    )


def _with_outputs(context: CampaignContext, seed: int, table: pa.Table) -> Golden:
    trace_key = context.trace_key
    assert isinstance(trace_key, TraceKey)
    parts = parts_of(context.scores)
    seq = table["seq"].to_numpy()
    order = np.argsort(seq, kind="stable")
    seq = seq[order]
    base, span = context.span
    codes = trace_key.keys[context.row_positions(seq)] * span + (seq - base)
    by_key = np.argsort(codes, kind="stable")
    values = {part: pc.fill_null(table[f"p{n}"], 0.0).to_numpy()[order] for n, part in enumerate(parts)}
    numbers = context.sections.of(seq)
    sections = {part: _sums(numbers, v, context.sections.count) for part, v in values.items()}
    for part, sums in sections.items():
        require_numbers(context, part, np.arange(len(sums)), sums)
    rows = KeyedSeqs(codes[by_key], span, base)
    return Golden(seed, sections, Outputs(rows, {part: v[by_key] for part, v in values.items()}))


def _sums(sections: Ints, values: Floats, length: int = 0) -> Floats:
    """Return the sum of the values in each section."""
    return np.asarray(np.bincount(sections, weights=values, minlength=length), np.float64)
