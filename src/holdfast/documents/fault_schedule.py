"""Fault schedules: which fault affects which process, and when. The trial rig injects the faults; the simulator models them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, at_least, unexpected

Kind = Literal["crash", "stall", "slow", "hog", "cut", "fill"]
Victim = Literal["pe", "host", "node", "controller", "orchestrator", "disk"]

VICTIMS: dict[str, tuple[str, ...]] = {
    "crash": ("pe", "host", "node", "controller", "orchestrator"),
    "stall": ("pe", "host", "controller", "orchestrator"),
    "slow": ("pe",),
    "hog": ("node",),
    "cut": ("node",),
    "fill": ("disk",),
}
"""What each kind of fault can affect. A node is its controller and its PE host together."""

AS_INIT_S = 0.5
"""The default delay before a killed orchestrator restarts, as under an init system."""

LASTING = ("stall", "slow", "hog", "cut", "fill")


class ScheduledFault(Part):
    """One fault, `at_s` seconds after the job began to run.

    - crash: killed (SIGKILL). A node restarts after `back_after_s`, if that is given; the orchestrator always restarts.
    - stall: stopped, and continued after `for_s` (SIGSTOP, SIGCONT).
    - slow: every epoch of a PE takes `by_s` longer.
    - hog: for `for_s`, two processes per core of a node use all the CPU they get, on every node of the same machine.
    - cut: messages between a node and the orchestrator are lost for `for_s`.
    - fill: the log's disk is full for `for_s`.

    `target` names a task such as vwap/0, one replica of it such as vwap/0.1, a node, or a label such as rack=r1 for all nodes
    that have it. A fault affects all its targets at once. A stalled or slow task does not affect its idle replicas, because they
    do no work that could take longer.
    """

    at_s: float
    kind: Kind
    what: Victim
    target: tuple[str, ...] = ()
    for_s: float | None = None
    by_s: float | None = None
    back_after_s: float | None = None

    @property
    def lasts_s(self) -> float | None:
        """After how many seconds the fault ends; None if it does not end."""
        lasts_s = self.for_s if self.for_s is not None else self.back_after_s
        return AS_INIT_S if lasts_s is None and self.what == "orchestrator" else lasts_s

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "at_s"), self.at_s)
        if self.what not in VICTIMS[self.kind]:
            yield unexpected((*place, "what"), f"one of {', '.join(VICTIMS[self.kind])} for a {self.kind}", self.what)
        if not self.target and self.what not in ("orchestrator", "disk"):
            yield FieldError((*place, "target"), f"is missing; a {self.kind} of a {self.what} needs the name of at least one")
        if self.kind in LASTING and self.for_s is None:
            yield FieldError((*place, "for_s"), f"is missing; give the seconds that a {self.kind} lasts")
        if self.kind == "slow" and self.by_s is None:
            yield FieldError((*place, "by_s"), "is missing; give the seconds that each epoch of a slow PE takes longer")
        for name in ("for_s", "by_s", "back_after_s"):
            value = getattr(self, name)
            if value is not None:
                yield from at_least(0, (*place, name), value)


class RandomFaults(Part):
    """A number of faults drawn with the schedule's seed, between two times.

    Each fault has one of the `kinds` and affects one of `what`; all possible pairs are equally likely. What was killed restarts
    after `back_after_s`, lasting faults last `for_s`, and a slow PE takes `by_s` longer for each epoch.
    """

    count: int
    from_s: float = 0.0
    to_s: float
    kinds: tuple[Kind, ...] = ("crash",)
    what: tuple[Victim, ...] = ("pe", "host", "node", "orchestrator")
    back_after_s: float = 1.0
    for_s: float = 5.0
    by_s: float = 0.5

    @property
    def mix(self) -> list[tuple[Kind, Victim]]:
        """The pairs that can be drawn: each kind with each process that it can affect."""
        return [(kind, what) for kind in self.kinds for what in self.what if what in VICTIMS[kind]]

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "count"), self.count)
        yield from at_least(0, (*place, "from_s"), self.from_s)
        yield from at_least(self.from_s, (*place, "to_s"), self.to_s)
        for name in ("back_after_s", "for_s", "by_s"):
            yield from at_least(0, (*place, name), getattr(self, name))
        if not self.what:
            yield FieldError((*place, "what"), "is empty; give what the faults may affect, such as pe")
        if not self.kinds:
            yield FieldError((*place, "kinds"), "is empty; give the kinds of fault, such as crash")
        elif self.what:
            yield from self._selector_errors(place)

    def _selector_errors(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        """Yield errors for kinds that can affect nothing in `what`, and for entries of `what` that no kind can affect."""
        possible = list(dict.fromkeys(what for kind in self.kinds for what in VICTIMS[kind]))
        for index, what in enumerate(self.what):
            if what not in possible and "what" in self.model_fields_set:
                yield unexpected((*place, "what", index), f"one of {', '.join(possible)}", what)
        for index, kind in enumerate(self.kinds):
            if not {*VICTIMS[kind]} & {*self.what}:
                yield FieldError(
                    (*place, "kinds", index), f"a {kind} affects {' or '.join(VICTIMS[kind])}, and 'what' has none of them"
                )

    def drawn(self, rng: random.Random, *, tasks: Sequence[str], nodes: Sequence[str]) -> Iterable[ScheduledFault]:
        """Yield the single faults in no particular order."""
        for _ in range(self.count):
            kind, what = rng.choice(self.mix)
            candidates = tasks if what == "pe" else () if what in ("orchestrator", "disk") else nodes
            yield ScheduledFault(
                at_s=round(rng.uniform(self.from_s, self.to_s), 3),
                kind=kind,
                what=what,
                target=(rng.choice(sorted(candidates)),) if candidates else (),
                for_s=self.for_s if kind in LASTING else None,
                by_s=self.by_s if kind == "slow" else None,
                back_after_s=self.back_after_s if kind == "crash" else None,
            )


class Stalls(Part):
    """Periodic stalls (ISORC'16, section V): every `every_s` seconds, a `share` of the PEs or nodes stalls for `for_s`.

    `how` is one of: the share of the PEs sleeps (`sleep`); SIGSTOP stops the PE hosts of the share of the nodes (`stop`); the
    share of the nodes is hogged (`hog`). The targets, at least one, are drawn each time.
    """

    share: float
    every_s: float = 30.0
    for_s: float = 8.0
    from_s: float = 0.0
    to_s: float
    how: Literal["sleep", "stop", "hog"] = "sleep"

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        if not 0 < self.share <= 1:
            yield unexpected((*place, "share"), "a share above 0 and at most 1", self.share)
        yield from at_least(0, (*place, "for_s"), self.for_s)
        yield from at_least(0, (*place, "from_s"), self.from_s)
        yield from at_least(self.from_s, (*place, "to_s"), self.to_s)
        if not self.every_s > self.for_s:
            yield FieldError((*place, "every_s"), f"wanted more than for_s, {self.for_s:g}: a stall ends before the next begins")

    def drawn(self, rng: random.Random, *, pes: Sequence[str], nodes: Sequence[str]) -> Iterable[ScheduledFault]:
        """Yield the single faults, one per period."""
        candidates = sorted(pes if self.how == "sleep" else nodes)
        what: Victim = {"sleep": "pe", "stop": "host", "hog": "node"}[self.how]  # type: ignore[assignment]  # its three values
        count = max(1, int(self.share * len(candidates) + 0.5))  # half of five are three
        at_s = self.from_s
        while candidates and at_s <= self.to_s:
            target = tuple(sorted(rng.sample(candidates, count)))
            kind: Kind = "hog" if self.how == "hog" else "stall"
            yield ScheduledFault(at_s=at_s, kind=kind, what=what, target=target, for_s=self.for_s)
            at_s += self.every_s


class Schedule(Document):
    """Faults with their times. The same seed draws the same faults.

    >>> Schedule(seed=1, random=RandomFaults(count=1, to_s=9, what=("node",))).drawn(tasks=[], nodes=["a", "b"])[0].target
    ('a',)
    """

    seed: int = 0
    faults: tuple[ScheduledFault, ...] = Field(default_factory=tuple)
    random: RandomFaults | None = None
    stalls: Stalls | None = None

    def errors(self) -> Iterable[FieldError]:
        for index, fault in enumerate(self.faults):
            yield from fault.errors_at(("faults", index))
        if self.random is not None:
            yield from self.random.errors_at(("random",))
        if self.stalls is not None:
            yield from self.stalls.errors_at(("stalls",))

    def drawn(self, *, tasks: Sequence[str], nodes: Sequence[str], pes: Sequence[str] | None = None) -> list[ScheduledFault]:
        """Return all faults by time, random ones drawn for these tasks and nodes. `pes` are the tasks that may stall."""
        faults: list[ScheduledFault] = list(self.faults)
        if self.random is not None:
            faults += self.random.drawn(random.Random(self.seed), tasks=tasks, nodes=nodes)
        if self.stalls is not None:
            faults += self.stalls.drawn(random.Random(self.seed), pes=tasks if pes is None else pes, nodes=nodes)
        return sorted(faults, key=lambda fault: (fault.at_s, fault.kind, fault.what, fault.target))
