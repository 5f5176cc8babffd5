"""The pipeline of LAAR's Figure 1 on a simulated cluster."""

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.planning.laar import Instance, static_replication
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.simulate import (
    Deployment,
    FailureHandling,
    SimulationOutcome,
    SimulationSettings,
    simulate,
    steady_rates,
)


def pipeline(*, replicated: bool) -> Deployment:
    """Return Figure 1's pipeline on nodes with spare capacity, with both replicas active or only the first."""
    descriptor = figure_1()
    descriptor = descriptor.model_copy(
        update={"nodes": {name: node.model_copy(update={"cores": 4.0}) for name, node in descriptor.nodes.items()}}
    )
    instance = Instance.of(descriptor)
    active = static_replication(instance)
    active[:, :, 1] &= replicated
    return Deployment.planned(descriptor, instance, active)


def crash(target: str, *, at_s: float = 20, what: str = "pe", back_after_s: float | None = None) -> Schedule:
    return Schedule(faults=(ScheduledFault(at_s=at_s, kind="crash", what=what, target=(target,), back_after_s=back_after_s),))


def run(deployment: Deployment, schedule: Schedule, **handling: object) -> SimulationOutcome:
    """Simulate 60 s at the Low rate with the given settings of the failure handling."""
    settings = SimulationSettings(drain_s=30, failure_handling=FailureHandling(**handling))
    return simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=schedule, settings=settings)
