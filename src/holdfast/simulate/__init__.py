"""The cluster as a model: nodes, queues, replicas, strategies, checkpoints and failures, at any scale, without a JVM."""

from holdfast.simulate.deployment import Deployment
from holdfast.simulate.outcome import Happening, Return, SimulationOutcome
from holdfast.simulate.rates import Glitches, RateTrace, drawn_rates, read_rates, steady_rates
from holdfast.simulate.settings import SCHEMES, Control, FailureHandling, Scheme, SimulationSettings
from holdfast.simulate.simulation import simulate

__all__ = [
    "SCHEMES",
    "Control",
    "Deployment",
    "FailureHandling",
    "Glitches",
    "Happening",
    "RateTrace",
    "Return",
    "Scheme",
    "SimulationOutcome",
    "SimulationSettings",
    "drawn_rates",
    "read_rates",
    "simulate",
    "steady_rates",
]
