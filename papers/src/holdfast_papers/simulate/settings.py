"""Settings of the cluster simulator: time step, queues, activation controller and failure handling."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isclose, isinf
from typing import Literal

from holdfast.errors import CompoundError
from holdfast.planning.laar.activation_rule import STEADY, TOLERANCE

FAR = 2**40
"""More steps than any run has."""

Scheme = Literal["none", "checkpoint", "source"]
SCHEMES: tuple[Scheme, ...] = ("none", "checkpoint", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Settings of the rate monitor and the activation controller (LAAR section 4.6).

    The monitor measures every `every_s`. `tolerance` and `steady` are those of planning/laar/activation_rule.py. A command takes
    `switch_s` to arrive. A replica that is activated or restarted needs `resync_s` to copy the state of a live one.

    With `replace_dead`, the controller activates an idle replica if all active replicas of a PE are known to be dead. That takes
    `replace_s`. The controller deactivates the replacement when the strategy's own replicas work again. `holdfast run` does this;
    the paper's controller does not.
    """

    every_s: float = 1.0
    tolerance: float = TOLERANCE
    steady: int = STEADY
    switch_s: float = 0.1
    resync_s: float = 0.5
    replace_dead: bool = False
    replace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHandling:
    """Settings for the detection of failures and the recovery from them.

    The orchestrator detects a crash after `detect_s`. The scheme defines the recovery:

    - "none": the replica returns when the fault ends, with empty queues.
    - "checkpoint": the replica restarts `restart_s` after detection and replays what it had processed since its last checkpoint.
    - "source": the replica restarts `restart_s` after detection, and the sources send the last `window_s` again through all PEs
      upstream.

    Under the last two schemes, inputs are kept upstream and queues have no bound. If the node is lost, the replica restarts on a
    spare node of the same size; without `spares` it returns only with its node. `schemes` overrides `scheme` for single PEs.

    A restart of an active replica costs `restart_cost_s` CPU seconds (loading, planning, compiling). A PE writes a checkpoint every
    `checkpoint_s`. Writing costs `checkpoint_cost_s` and `checkpoint_tuple_s` per tuple of state; loading costs `load_tuple_s` per
    tuple of state. The state is `window_s` of input. An active secondary takes over in `takeover_s`, plus `resend_s` for each tuple
    emitted since the replicas were last synchronised, which happens every `sync_s`.
    """

    detect_s: float = 1.0
    restart_s: float = 2.0
    restart_cost_s: float = 0.0
    spares: bool = True
    scheme: Scheme = "none"
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    checkpoint_s: float = 10.0
    checkpoint_cost_s: float = 0.0
    checkpoint_tuple_s: float = 0.0
    load_tuple_s: float = 0.0
    window_s: float = 10.0
    takeover_s: float = 0.0
    sync_s: float = 0.0
    resend_s: float = 0.0

    def scheme_of(self, pe: str) -> Scheme:
        """Return the recovery scheme of a PE."""
        return self.schemes.get(pe, self.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """All settings of a simulation.

    A tuple passes one PE per step of `step_s`. A queue holds `queue_s` seconds of the highest rate of its input; if it is infinite,
    nothing is dropped. Each line of the results covers `interval_s`. After the trace ends, the cluster runs for another `drain_s`.

    With `epoch_s` above 0, PEs process whole epochs of that length, as in `holdfast run`: the tuples of a source arrive when their
    epoch ends; an idle PE takes all epochs that are complete on every input as one job; its output leaves when the job ends. A job
    costs `job_s` CPU seconds in addition to its tuples; `jobs` overrides this for single PEs. A restored PE replays and catches up
    in one job.
    """

    step_s: float = 0.05
    queue_s: float = 2.0
    interval_s: float = 1.0
    drain_s: float = 0.0
    epoch_s: float = 0.0
    job_s: float = 0.0
    jobs: Mapping[str, float] = field(default_factory=dict)
    control: Control = field(default_factory=Control)
    failure_handling: FailureHandling = field(default_factory=FailureHandling)

    def __post_init__(self) -> None:
        errors = [
            f"{name} wants a number above 0, got {value:g}"
            for name, value in (
                ("step_s", self.step_s),
                ("queue_s", self.queue_s),
                ("interval_s", self.interval_s),
                ("control.every_s", self.control.every_s),
                ("failure_handling.checkpoint_s", self.failure_handling.checkpoint_s),
            )
            if not value > 0
        ]
        errors += [
            f"{part}.{name} wants a number of at least 0, got {getattr(values, name):g}"
            for part, values, names in (
                ("control", self.control, ("tolerance", "switch_s", "resync_s", "replace_s")),
                (
                    "failure_handling",
                    self.failure_handling,
                    ("detect_s", "restart_s", "restart_cost_s", "checkpoint_cost_s", "checkpoint_tuple_s"),
                ),
                ("failure_handling", self.failure_handling, ("load_tuple_s", "window_s", "takeover_s", "sync_s", "resend_s")),
            )
            for name in names
            if not getattr(values, name) >= 0
        ]
        for name, value in (("drain_s", self.drain_s), ("epoch_s", self.epoch_s), ("job_s", self.job_s), *self.jobs.items()):
            if not value >= 0:
                errors.append(f"{name} wants a number of at least 0, got {value:g}")
        errors += [f"{name} wants a finite number, got {value:g}" for name, value in self._numbers() if isinf(value)]
        if self.epoch_s > 0 and {self.failure_handling.scheme, *self.failure_handling.schemes.values()} != {"checkpoint"}:
            errors.append("epoch_s wants the scheme 'checkpoint' for every PE, as an epoch log keeps what a dead PE has not read")
        if 0 < self.epoch_s < self.step_s:
            errors.append(f"epoch_s wants at least a step of {self.step_s:g} s, got {self.epoch_s:g}")
        elif self.epoch_s > 0 and not isclose(self.steps(self.epoch_s) * self.step_s, self.epoch_s, rel_tol=1e-6):
            errors.append(f"epoch_s wants whole steps of {self.step_s:g} s, got {self.epoch_s:g}; give another step_s")
        if self.control.steady < 1:
            errors.append(f"control.steady wants a whole number of at least 1, got {self.control.steady}")
        unknown = sorted({self.failure_handling.scheme, *self.failure_handling.schemes.values()} - set(SCHEMES))
        errors += [f"there is no scheme '{scheme}'; schemes are: {', '.join(SCHEMES)}" for scheme in unknown]
        if errors:
            raise CompoundError("the simulation's settings", errors)

    def _numbers(self) -> Iterator[tuple[str, float]]:
        """Yield every time and cost with its name, except the length of the queues, which may be infinite."""
        for part, values in (("", self), ("control.", self.control), ("failure_handling.", self.failure_handling)):
            for setting in fields(values):
                value = getattr(values, setting.name)
                if isinstance(value, float) and setting.name != "queue_s":
                    yield part + setting.name, value
        yield from self.jobs.items()

    def steps(self, seconds: float) -> int:
        """Return a time in whole steps, at most FAR."""
        return round(min(seconds / self.step_s, FAR))
