"""Predicted output that stands in for a late PE."""

from holdfast.prediction.column_roles import Columns, columns_of
from holdfast.prediction.cover import Cover
from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.lateness_monitor import Monitor, Overdue
from holdfast.prediction.prediction import Prediction
from holdfast.prediction.predictor_view import view
from holdfast.prediction.predictors.nearest_neighbours import NearestNeighbours
from holdfast.prediction.predictors.predictor import Predictor
from holdfast.prediction.predictors.registry import default_predictors, installed, make
from holdfast.prediction.settings import PredictorSettings
from holdfast.prediction.warm_up import rehearse

__all__ = [
    "Columns",
    "Cover",
    "EpochPredictor",
    "Monitor",
    "NearestNeighbours",
    "Overdue",
    "Prediction",
    "Predictor",
    "PredictorSettings",
    "columns_of",
    "default_predictors",
    "installed",
    "make",
    "rehearse",
    "view",
]
