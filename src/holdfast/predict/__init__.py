"""Predicted output that stands in for a late PE."""

from holdfast.predict.columns import Columns, columns_of
from holdfast.predict.cover import Cover
from holdfast.predict.monitor import Monitor, Overdue
from holdfast.predict.prediction import Prediction
from holdfast.predict.predictor import Predictor
from holdfast.predict.registry import default_predictors, installed, make
from holdfast.predict.settings import Settings
from holdfast.predict.stand_in import StandIn
from holdfast.predict.view import view

__all__ = [
    "Columns",
    "Cover",
    "Monitor",
    "Overdue",
    "Prediction",
    "Predictor",
    "Settings",
    "StandIn",
    "columns_of",
    "default_predictors",
    "installed",
    "make",
    "view",
]
