"""Measures the accuracy of each algorithm on a recorded stream, alone and with hot-swap, called as an agent calls it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from holdfast.errors import TraceError
from holdfast.prediction import EpochPredictor, Predictor, PredictorSettings, classify_columns

HOT_SWAP = "hot-swap"
WARM = 50  # epochs before the first prediction that counts: a full cache
AMPLE_S = 60.0


@dataclass(frozen=True)
class Recording:
    """A recorded stream: its rows by epoch, and its key columns."""

    name: str
    keys: tuple[str, ...]
    epochs: Sequence[pa.Table]


@dataclass(frozen=True)
class Study:
    """Accuracy (share within the tolerance) by algorithm and attribute, and seconds per epoch."""

    recording: str
    accuracy: Mapping[str, Mapping[str, float]]
    train_s: Mapping[str, float]
    execute_s: Mapping[str, float]
    predictions: int

    def best_alone(self, attribute: str) -> tuple[str, float]:
        """Return the most accurate single algorithm on an attribute, and its accuracy; of equals, the first by name."""
        alone = {name: shares[attribute] for name, shares in self.accuracy.items() if name != HOT_SWAP}
        return min(alone.items(), key=lambda item: (-item[1], item[0]))


def study(
    recording: Recording,
    predictors: Sequence[Predictor],
    *,
    ahead: int = 1,
    warm: int = WARM,
    settings: PredictorSettings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Let every algorithm alone, and all with hot-swap, predict each epoch `ahead` epochs in advance.

    What an algorithm alone does not predict counts as inaccurate. With hot-swap the last outcome replaces it, as in an agent.
    Raises TraceError if the recording is too short for a prediction.
    """
    if len(recording.epochs) <= warm + ahead:
        raise TraceError(
            f"recording '{recording.name}' has {len(recording.epochs)} epochs; to learn from {warm} and predict {ahead} ahead, "
            f"at least {warm + ahead + 1} are needed"
        )
    columns = classify_columns(recording.epochs[0].schema, recording.keys, stream=recording.name)
    predictors_of = {predictor.name: [predictor] for predictor in predictors} | {HOT_SWAP: list(predictors)}
    settings = settings or PredictorSettings()
    epoch_predictors = {
        name: EpochPredictor(columns, members, settings=replace(settings, replace=name == HOT_SWAP))
        for name, members in predictors_of.items()
    }
    hits = {name: np.zeros(len(columns.numbers)) for name in predictors_of}
    total = np.zeros(len(columns.numbers))
    seconds_of = {name: [0.0, 0.0] for name in predictors_of}
    pending: dict[int, dict[str, pa.Table]] = {}
    for epoch, rows in enumerate(recording.epochs):
        table = rows.sort_by("seq")
        truth = _numbers(table, columns.numbers)
        predictions = pending.pop(epoch, {})
        if predictions:
            total += np.isfinite(truth).sum(axis=0)
        for name, predicted in predictions.items():
            matched = _matched(columns.keys, table, predicted, _numbers(predicted, columns.numbers))
            with np.errstate(invalid="ignore"):
                hits[name] += (np.abs(matched - truth) <= settings.tolerance * np.abs(truth)).sum(axis=0)
        for name, epoch_predictor in epoch_predictors.items():
            epoch_predictor.observe(epoch, rows)
            began = time.perf_counter()
            epoch_predictor.train()
            trained = time.perf_counter()
            if warm <= epoch < len(recording.epochs) - ahead:
                prediction = epoch_predictor.predict(epoch + ahead, AMPLE_S)
                seconds_of[name][0] += trained - began
                seconds_of[name][1] += prediction.took_s
                assert prediction.rows is not None
                pending.setdefault(epoch + ahead, {})[name] = prediction.rows
        progress(epoch + 1, len(recording.epochs))
    rounds = max(1, len(recording.epochs) - ahead - warm)
    return Study(
        recording=recording.name,
        accuracy={
            name: {
                column: float(h / t) if t else float("nan")
                for column, h, t in zip(columns.numbers, hits_of_algorithm, total, strict=True)
            }
            for name, hits_of_algorithm in hits.items()
        },
        train_s={name: seconds[0] / rounds for name, seconds in seconds_of.items()},
        execute_s={name: seconds[1] / rounds for name, seconds in seconds_of.items()},
        predictions=int(total.sum()),
    )


def _matched(keys: Sequence[str], table: pa.Table, predicted: pa.Table, values: np.ndarray) -> np.ndarray:
    """Return the predicted numbers for each true row, or NaN. The n-th predicted row of a key belongs to its n-th true row."""
    rows_of_key: dict[object, list[int]] = {}
    for row, key in enumerate(_keys(keys, predicted)):
        rows_of_key.setdefault(key, []).append(row)
    matched = np.full((table.num_rows, values.shape[1]), np.nan)
    for row, key in enumerate(_keys(keys, table)):
        if rows_of_key.get(key):
            matched[row] = values[rows_of_key[key].pop(0)]
    return matched


def _numbers(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return the named columns as floats, NaN for null."""
    return np.column_stack([table[name].to_numpy().astype(float) for name in names])


def _keys(keys: Sequence[str], table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table[key].to_pylist() for key in keys), strict=True)) if keys else [()] * table.num_rows
