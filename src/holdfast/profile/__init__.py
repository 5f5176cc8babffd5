"""Measures selectivities, costs and rates of an application on a trace, and writes its descriptor."""

from holdfast.profile.describe import describe
from holdfast.profile.measure import Measurement, measure

__all__ = ["Measurement", "describe", "measure"]
