"""The cluster as a model: hosts, queues, replicas, strategies, checkpoints and failures, at any scale, without a JVM."""

from holdfast.simulate.deployment import Deployment
from holdfast.simulate.outcome import Happening, Outcome, Return
from holdfast.simulate.rates import Glitches, RateTrace, drawn_rates, read_rates, steady_rates
from holdfast.simulate.settings import SCHEMES, Care, Control, Scheme, Settings
from holdfast.simulate.simulation import simulate

__all__ = [
    "SCHEMES",
    "Care",
    "Control",
    "Deployment",
    "Glitches",
    "Happening",
    "Outcome",
    "RateTrace",
    "Return",
    "Scheme",
    "Settings",
    "drawn_rates",
    "read_rates",
    "simulate",
    "steady_rates",
]
