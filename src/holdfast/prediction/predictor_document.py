"""Describes an epoch predictor for the agent manager: the accuracy and speed of each algorithm, and which are excluded and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict
from typing import Any

from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.ranking.algorithm_rank import Accuracy
from holdfast.prediction.ranking.model_builder import PredictorState

Document = dict[str, Any]


def predictor_view(predictor: EpochPredictor) -> Callable[[], Document]:
    """Return a function that builds the predictor's JSON document, whose cost grows with the keys.

    This call must not run beside another one of the predictor. The returned function may, in any thread: it reads nothing that is
    replaced meanwhile, and outcomes that are added meanwhile may count.
    """
    observed, states, numbers = predictor.epochs_observed, predictor.states, predictor.columns.numbers
    ranks = [copy(rank) for rank in (*predictor.ranks, predictor.input_predictor.rank)]
    relations = predictor.input_predictor.echo.relations
    summary = {
        "epoch": predictor.epoch,
        "epochs_observed": observed,
        "keys": predictor.keys,
        "numbers": list(numbers),
        "predictions": predictor.predictions,
        "last_used": dict(sorted(predictor.last_used.items())),
        "learn_s": predictor.train_s,
        "measure": predictor.settings.measure,
    }

    def build() -> Document:
        next_accuracy, later_accuracy, input_accuracy = (rank.by_column() for rank in ranks)
        from_input = {
            name: {"is": relations[name], "accuracy": _document(accuracies[0])}
            for name, accuracies in zip(numbers, input_accuracy, strict=True)
            if name in relations
        }
        algorithms = [
            {
                **_algorithm(state, observed),
                "next": _by_name(numbers, [accuracies[number] for accuracies in next_accuracy]),
                "later": _by_name(numbers, [accuracies[number] for accuracies in later_accuracy]),
            }
            for number, state in enumerate(states)
        ]
        return {**summary, "from_input": from_input, "algorithms": algorithms}

    return build


def _algorithm(state: PredictorState, observed: int) -> Document:
    epochs_out = max(0, state.excluded_until - observed)
    return {
        "name": state.name,
        "least": state.predictor.least,
        "out": epochs_out > 0,
        "epochs_out": None if state.hung else epochs_out,
        "faults": state.faults,
        "reason": state.reason,
        "train_s_per_series": state.train_s,
        "execute_s_per_series": None if state.next_cost is None else state.next_cost.series_s,
    }


def _by_name(numbers: Sequence[str], accuracies: Sequence[Accuracy | None]) -> dict[str, Document | None]:
    return dict(zip(numbers, map(_document, accuracies), strict=True))


def _document(accuracy: Accuracy | None) -> Document | None:
    return None if accuracy is None else {**asdict(accuracy), "rmse": accuracy.rmse}
