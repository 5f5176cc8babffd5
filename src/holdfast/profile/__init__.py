"""Measures selectivities, costs and rates of an application on a trace, and writes its descriptor."""

from holdfast.profile.descriptor import describe
from holdfast.profile.measurement import Measurement, measure, task_shares

__all__ = [
    "Measurement",
    "describe",
    "measure",
    "task_shares",
]
