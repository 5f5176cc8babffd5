"""The inputs of a simulation as the user names them: a strategy by file or baseline, rates by file or configuration."""

from __future__ import annotations

from pathlib import Path

from holdfast.documents import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar import Instance, baseline, read_strategy
from holdfast_papers.simulate.deployment import Deployment
from holdfast_papers.simulate.rates import RateTrace, rates_by_probability, read_rates, steady_rates

BASELINES = ("nr", "sr", "grd")


def deployment_of(descriptor: Descriptor, strategy: str) -> tuple[Deployment, float | None]:
    """Return the deployment of a strategy file or a baseline, and the internal completeness that a file promises."""
    if strategy.lower() in BASELINES:
        instance = Instance.of(descriptor)
        return Deployment.planned(descriptor, instance, baseline(strategy.upper(), instance)), None
    if not strategy or not Path(strategy).exists():
        raise HoldfastError(f"--strategy wants a strategy's file or one of {', '.join(BASELINES)}; there is no file '{strategy}'")
    document = read_strategy(strategy)
    return Deployment.of(descriptor, document), document.internal_completeness


def rates_of(descriptor: Descriptor, trace: str | None, *, seconds: float) -> RateTrace:
    """Return the rates of a file or a configuration, or, without `trace`, each configuration by its probability."""
    if trace is None:
        return rates_by_probability(descriptor, seconds=seconds)
    names = [configuration.name for configuration in descriptor.input_configurations]
    if trace in names:
        return steady_rates(descriptor, trace, seconds=seconds)
    if not trace or not Path(trace).exists():
        raise HoldfastError(f"--trace wants a file of rates or a configuration ({', '.join(names)}); there is no file '{trace}'")
    return read_rates(trace, descriptor)
