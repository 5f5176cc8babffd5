"""Describes an epoch predictor for the agent manager: the accuracy and speed of each algorithm, and which are excluded and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.ranking.algorithm_rank import Accuracy, AlgorithmRank
from holdfast.prediction.ranking.model_builder import PredictorState


def predictor_document(predictor: EpochPredictor) -> dict[str, Any]:
    """Return the predictor as a JSON document. The cost grows with the keys, not with the observed epochs."""
    next_rank, later_rank = predictor.ranks
    return {
        "epoch": predictor.epoch,
        "epochs_observed": predictor.epochs_observed,
        "keys": predictor.keys,
        "numbers": list(predictor.columns.numbers),
        "predictions": predictor.predictions,
        "last_used": dict(sorted(predictor.last_used.items())),
        "learn_s": predictor.train_s,
        "measure": predictor.settings.measure,
        "from_input": _from_input(predictor),
        "algorithms": [
            _algorithm(predictor, state, next_rank, later_rank, number=number) for number, state in enumerate(predictor.states)
        ],
    }


def _algorithm(
    predictor: EpochPredictor, state: PredictorState, next_rank: AlgorithmRank, later_rank: AlgorithmRank, *, number: int
) -> dict[str, Any]:
    epochs_out = max(0, state.excluded_until - predictor.epochs_observed)
    numbers = predictor.columns.numbers
    return {
        "name": state.name,
        "least": state.predictor.least,
        "out": epochs_out > 0,
        "epochs_out": None if state.hung else epochs_out,
        "faults": state.faults,
        "reason": state.reason,
        "train_s_per_series": state.train_s,
        "execute_s_per_series": None if state.next_cost is None else state.next_cost.series_s,
        "next": {name: _accuracy(next_rank.of_column(column, number)) for column, name in enumerate(numbers)},
        "later": {name: _accuracy(later_rank.of_column(column, number)) for column, name in enumerate(numbers)},
    }


def _from_input(predictor: EpochPredictor) -> dict[str, Any]:
    """Return which function of the input each number is thought to be, and how accurate that is."""
    from_input, numbers = predictor.input_predictor, predictor.columns.numbers
    return {
        name: {"is": relation, "accuracy": _accuracy(from_input.rank.of_column(numbers.index(name), 0))}
        for name, relation in from_input.echo.relations.items()
    }


def _accuracy(accuracy: Accuracy | None) -> dict[str, float] | None:
    return None if accuracy is None else {**asdict(accuracy), "rmse": accuracy.rmse}
