"""Measures selectivities, costs and rates of an application on a trace, and writes its descriptor."""

from holdfast.profile.descriptor import describe
from holdfast.profile.measurement import Measurement, measure

__all__ = ["Measurement", "describe", "measure"]
