"""What the manager sees of a stand-in: its algorithms, how accurate and how fast each is, and which are out and why."""

from __future__ import annotations

from typing import Any

from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.ranking.model_builder import Standing
from holdfast.prediction.ranking.rank import Accuracy, Rank


def view(stand_in: EpochPredictor) -> dict[str, Any]:
    """The stand-in as one JSON document. Reads only; its cost grows with the keys, not with the epochs that were observed."""
    near, far = stand_in.ranks
    return {
        "epoch": stand_in.epoch,
        "epochs_observed": stand_in.turns,
        "keys": stand_in.keys,
        "numbers": list(stand_in.columns.numbers),
        "predictions": stand_in.predictions,
        "last_used": dict(sorted(stand_in.last_used.items())),
        "learn_s": stand_in.learn_s,
        "measure": stand_in.settings.measure,
        "from_input": _from_input(stand_in),
        "algorithms": [
            _algorithm(stand_in, standing, near=near, far=far, number=number) for number, standing in enumerate(stand_in.standings)
        ],
    }


def _algorithm(stand_in: EpochPredictor, standing: Standing, *, near: Rank, far: Rank, number: int) -> dict[str, Any]:
    out = standing.out_until > stand_in.turns
    numbers = stand_in.columns.numbers
    return {
        "name": standing.name,
        "least": standing.predictor.least,
        "out": out,
        "epochs_out": None if standing.hung else standing.out_until - stand_in.turns if out else 0,
        "faults": standing.faults,
        "reason": standing.reason,
        "train_s_per_series": standing.train_s,
        "execute_s_per_series": None if standing.near is None else standing.near.series_s,
        "next": {name: _accuracy(near.of_column(place, number)) for place, name in enumerate(numbers)},
        "later": {name: _accuracy(far.of_column(place, number)) for place, name in enumerate(numbers)},
    }


def _from_input(stand_in: EpochPredictor) -> dict[str, Any]:
    """What each number was found to be of the input, and how accurate that is."""
    found, numbers = stand_in.from_input, stand_in.columns.numbers
    return {
        name: {"is": relation, "accuracy": _accuracy(found.rank.of_column(numbers.index(name), 0))}
        for name, relation in found.echo.relations.items()
    }


def _accuracy(accuracy: Accuracy | None) -> dict[str, float] | None:
    if accuracy is None:
        return None
    return {
        "outcomes": accuracy.outcomes,
        "within": accuracy.within,
        "mae": accuracy.mae,
        "rmse": accuracy.rmse,
        "mse": accuracy.mse,
    }
