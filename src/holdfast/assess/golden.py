"""Golden runs: the output without a fault, run by run of a non-deterministic application."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.assess.files import write_whole
from holdfast.assess.keyed import Floats, Ints, KeyedSeqs
from holdfast.assess.reach import Reach
from holdfast.assess.score import part_value, parts_of
from holdfast.assess.setting import Keying, Setting
from holdfast.errors import HoldfastError
from holdfast.execute.call import running

Parts = Mapping[str, Floats]
"""The parts of scores, one number per section."""


@dataclass(frozen=True)
class Outputs:
    """What every output row of a golden run adds to the parts, by key and seq."""

    rows: KeyedSeqs
    values: Parts

    def within(self, reach: Reach, section: int) -> tuple[Ints, dict[str, Floats]]:
        """The sections of the outputs that a fault can change, and their parts."""
        at = self.rows.selected(reach.keys, reach.first, reach.last)
        if not len(at):
            return np.zeros(0, np.int64), {part: np.zeros(0) for part in self.values}
        places = self.rows.codes[at] % self.rows.span // section
        low = int(places.min())
        there = np.flatnonzero(np.bincount(places - low)).astype(np.int64)
        return there + low, {part: _sums(places - low, values[at])[there] for part, values in self.values.items()}


@dataclass(frozen=True)
class Golden:
    """One golden run: the parts of its sections, and its outputs where trials are to be told from them."""

    seed: int
    parts: Parts
    outputs: Outputs | None = None


def run_golden(setting: Setting, seed: int, *, outputs: bool) -> Golden:
    """Run the application without a fault; `outputs` keeps what each row adds, for scores that add up."""
    frame = setting.golden_output(seed)
    with running(setting.graph, f"golden run {seed}"):
        if not outputs:
            return Golden(seed, section_parts(setting, frame))
        parts = parts_of(setting.scores)
        table = frame.select("seq", *(F.expr(part_value(part)).alias(f"p{n}") for n, part in enumerate(parts))).toArrow()
    return _with_outputs(setting, seed, table)


def save_golden(golden: Golden, path: Path) -> None:
    """Write a golden run down, whole or not at all."""
    arrays: dict[str, Any] = {f"part {part}": values for part, values in golden.parts.items()}
    if golden.outputs is not None:
        arrays |= {"codes": golden.outputs.rows.codes, "span": np.array([golden.outputs.rows.span])}
        arrays |= {f"value {part}": values for part, values in golden.outputs.values.items()}
    write_whole(path, lambda file: np.savez(file, allow_pickle=False, seed=np.array([golden.seed]), **arrays))


def load_golden(path: Path) -> Golden:
    """A golden run as it was written down."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            parts = {name.removeprefix("part "): arrays[name] for name in arrays.files if name.startswith("part ")}
            values = {name.removeprefix("value "): arrays[name] for name in arrays.files if name.startswith("value ")}
            outputs = Outputs(KeyedSeqs(arrays["codes"], int(arrays["span"][0])), values) if "codes" in arrays.files else None
            return Golden(int(arrays["seed"][0]), parts, outputs)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise HoldfastError(f"results file '{path}' is damaged; remove it, and the golden run is made again") from error


def section_parts(setting: Setting, output: DataFrame) -> dict[str, Floats]:
    """The parts of every section of an output; where a section has no rows, 0, or nan for a score that does not add up."""
    parts = parts_of(setting.scores)
    section = F.floor(F.col("seq") / F.lit(setting.section)).cast("long").alias("section")
    columns = [F.expr(f"cast({part} as double)").alias(f"p{n}") for n, part in enumerate(parts)]
    table = output.groupBy(section).agg(*columns).toArrow()
    places = table["section"].to_numpy()
    additive = {part for score in setting.scores if score.additive for part in score.parts}
    found = {}
    for n, part in enumerate(parts):
        values = np.full(setting.sections, 0.0 if part in additive else np.nan)
        column = table[f"p{n}"].to_numpy(zero_copy_only=False).astype(np.float64)
        values[places] = np.nan_to_num(column) if part in additive else column
        found[part] = values
    return found


def _with_outputs(setting: Setting, seed: int, table: pa.Table) -> Golden:
    keying = setting.keying
    assert isinstance(keying, Keying)
    parts = parts_of(setting.scores)
    seq = table["seq"].to_numpy()
    order = np.argsort(seq, kind="stable")
    seq = seq[order]
    span = int(setting.rows.seq[-1]) + 1
    codes = keying.keys[setting.at(seq)] * span + seq
    by_key = np.argsort(codes, kind="stable")
    values = {
        part: np.nan_to_num(table[f"p{n}"].to_numpy(zero_copy_only=False).astype(np.float64))[order] for n, part in enumerate(parts)
    }
    sections = {part: _sums(seq // setting.section, v, setting.sections) for part, v in values.items()}
    return Golden(seed, sections, Outputs(KeyedSeqs(codes[by_key], span), {part: v[by_key] for part, v in values.items()}))


def _sums(places: Ints, values: Floats, length: int = 0) -> Floats:
    """The sum of the values at each place."""
    return np.asarray(np.bincount(places, weights=values, minlength=length), np.float64)
