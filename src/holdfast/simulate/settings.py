"""How a simulated cluster behaves: its queues, its controller, and what it does about failures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isclose, isinf
from typing import Literal

from holdfast.errors import CompoundError

FAR = 2**40
"""Steps that no run has."""

Scheme = Literal["none", "checkpoint", "source"]
SCHEMES: tuple[Scheme, ...] = ("none", "checkpoint", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Rate monitor and activation controller (LAAR section 4.6).

    The monitor measures every `every_s`; a rate counts as exceeded when it is more than `tolerance` above a configuration's. A
    lighter configuration is taken when it was seen `steady` times in a row. A command takes `switch_s` to arrive, and a replica
    that is activated or restarted `resync_s` to get the state of a living one. `replace_dead` activates a living replica where all
    active ones are known to be dead, as `holdfast run` does and the paper's controller does not; that takes `replace_s`, and the
    replica is let go when those of the strategy work again.
    """

    every_s: float = 1.0
    tolerance: float = 0.1
    steady: int = 3
    switch_s: float = 0.1
    resync_s: float = 0.5
    replace_dead: bool = False
    replace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHandling:
    """How failures are noticed and made good.

    A crash is noticed after `detect_s`. Under scheme "checkpoint" or "source" a crashed replica is back `restart_s` later; where
    its node is gone on a spare of the same size, or, without `spares`, only with its node; from its last checkpoint, by replaying
    what it had processed since, or by replaying the last `window_s` from the sources through everything between. Inputs are then
    kept upstream, and queues have no bound. Under "none" it is back only when the fault says so, without what was in its queues.

    Bringing an active replica back takes `restart_cost_s` CPU seconds of its node beside: what it loads, plans and compiles before
    it works. A checkpoint is made every `checkpoint_s`; it and its loading take CPU time by the tuple of state, which is
    `window_s` of input. An active replica takes over in `takeover_s` and `resend_s` for each tuple that was put out since replicas
    were last synchronised, every `sync_s`.
    """

    detect_s: float = 1.0
    restart_s: float = 2.0
    restart_cost_s: float = 0.0
    spares: bool = True
    scheme: Scheme = "none"
    schemes: Mapping[str, Scheme] = field(default_factory=dict)  # of PEs that differ
    checkpoint_s: float = 10.0
    checkpoint_cost_s: float = 0.0
    checkpoint_tuple_s: float = 0.0
    load_tuple_s: float = 0.0
    window_s: float = 10.0
    takeover_s: float = 0.0
    sync_s: float = 0.0
    resend_s: float = 0.0

    def scheme_of(self, pe: str) -> Scheme:
        return self.schemes.get(pe, self.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """A simulation's grain and the cluster's behaviour.

    `step_s` is the time in which a tuple goes one PE further; `queue_s` how many seconds of the highest rate a queue holds
    (infinite: nothing is dropped); `interval_s` what one line of the results covers. After the trace the cluster runs on for
    `drain_s`.

    With `epoch_s` above 0 PEs go by epochs of that length, as `holdfast run` has them: a source's tuples come when their epoch is
    over, a PE that has nothing to do takes all epochs that each input has brought as one job, and its output leaves at the job's
    end. A job takes `job_s` CPU seconds beside its tuples, or what `jobs` says of the PE. One that is restored replays and catches
    up in one job.
    """

    step_s: float = 0.05
    queue_s: float = 2.0
    interval_s: float = 1.0
    drain_s: float = 0.0
    epoch_s: float = 0.0
    job_s: float = 0.0
    jobs: Mapping[str, float] = field(default_factory=dict)
    control: Control = field(default_factory=Control)
    care: FailureHandling = field(default_factory=FailureHandling)

    def __post_init__(self) -> None:
        errors = [
            f"{name} wants a number above 0, got {value:g}"
            for name, value in (
                ("step_s", self.step_s),
                ("queue_s", self.queue_s),
                ("interval_s", self.interval_s),
                ("control.every_s", self.control.every_s),
                ("care.checkpoint_s", self.care.checkpoint_s),
            )
            if not value > 0
        ]
        errors += [
            f"{part}.{name} wants a number of at least 0, got {getattr(values, name):g}"
            for part, values, names in (
                ("control", self.control, ("tolerance", "switch_s", "resync_s", "replace_s")),
                ("care", self.care, ("detect_s", "restart_s", "restart_cost_s", "checkpoint_cost_s", "checkpoint_tuple_s")),
                ("care", self.care, ("load_tuple_s", "window_s", "takeover_s", "sync_s", "resend_s")),
            )
            for name in names
            if not getattr(values, name) >= 0
        ]
        for name, value in (("drain_s", self.drain_s), ("epoch_s", self.epoch_s), ("job_s", self.job_s), *self.jobs.items()):
            if not value >= 0:
                errors.append(f"{name} wants a number of at least 0, got {value:g}")
        errors += [f"{name} wants a finite number, got {value:g}" for name, value in self._numbers() if isinf(value)]
        if self.epoch_s > 0 and {self.care.scheme, *self.care.schemes.values()} != {"checkpoint"}:
            errors.append("epoch_s wants the scheme 'checkpoint' for every PE: a log of epochs keeps what a dead one has not read")
        if 0 < self.epoch_s < self.step_s:
            errors.append(f"epoch_s wants at least a step of {self.step_s:g} s, got {self.epoch_s:g}")
        elif self.epoch_s > 0 and not isclose(self.steps(self.epoch_s) * self.step_s, self.epoch_s, rel_tol=1e-6):
            errors.append(f"epoch_s wants whole steps of {self.step_s:g} s, got {self.epoch_s:g}; give another step_s")
        if self.control.steady < 1:
            errors.append(f"control.steady wants a whole number of at least 1, got {self.control.steady}")
        wrong = sorted({self.care.scheme, *self.care.schemes.values()} - set(SCHEMES))
        errors += [f"there is no scheme '{scheme}'; schemes are: {', '.join(SCHEMES)}" for scheme in wrong]
        if errors:
            raise CompoundError("the simulation's settings", errors)

    def _numbers(self) -> Iterator[tuple[str, float]]:
        """Every time and cost by its name, but for the queue's length: a queue may have no end."""
        for part, values in (("", self), ("control.", self.control), ("care.", self.care)):
            for each in fields(values):
                value = getattr(values, each.name)
                if isinstance(value, float) and each.name != "queue_s":
                    yield part + each.name, value
        yield from self.jobs.items()

    def steps(self, seconds: float) -> int:
        """A time in whole steps; one that no run lasts is as good as any other such."""
        return round(min(seconds / self.step_s, FAR))
