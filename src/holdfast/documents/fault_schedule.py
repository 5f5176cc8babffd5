"""Fault schedules: what goes wrong with which process, and when. The runtime brings it about, the simulator computes with it."""

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
"""Whom each kind of fault can strike. A node is its controller and its PE host together."""

AS_INIT_S = 0.5
"""After how long an orchestrator that was killed is started again where nothing else is said, as an init system would."""

LASTING = ("stall", "slow", "hog", "cut", "fill")


class ScheduledFault(Part):
    """One fault, `at_s` seconds after the job began to run.

    crash: killed at once (SIGKILL); a node is started again after `back_after_s`, if that is given, the orchestrator in any case.
    stall: stopped and continued (SIGSTOP, SIGCONT) after `for_s`. slow: every epoch of a PE takes `by_s` longer. hog: for `for_s`
    two processes for each core of a node take all the CPU they can get, from every node of the same machine. cut: a node's messages
    to the orchestrator and back are lost for `for_s`. fill: the log's disk is full for `for_s`.

    `target` names whom: a task such as vwap/0 or one replica of it, vwap/0.1; a node; a label such as rack=r1 for all nodes that
    carry it. Several in one fault strike at once. Of a task that stalls or is slow, replicas that are idle are spared: they do
    nothing that could take longer.
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
        """After how long it is undone; None: it is not."""
        lasts_s = self.for_s if self.for_s is not None else self.back_after_s
        return AS_INIT_S if lasts_s is None and self.what == "orchestrator" else lasts_s

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "at_s"), self.at_s)
        if self.what not in VICTIMS[self.kind]:
            yield unexpected((*place, "what"), f"one of {', '.join(VICTIMS[self.kind])} for a {self.kind}", self.what)
        if not self.target and self.what not in ("orchestrator", "disk"):
            yield FieldError((*place, "target"), f"is missing; a {self.kind} of a {self.what} needs the name of at least one")
        if self.kind in LASTING and self.for_s is None:
            yield FieldError((*place, "for_s"), f"is missing; a {self.kind} lasts for so many seconds")
        if self.kind == "slow" and self.by_s is None:
            yield FieldError((*place, "by_s"), "is missing; a slow PE takes so many seconds longer for each epoch")
        for name in ("for_s", "by_s", "back_after_s"):
            value = getattr(self, name)
            if value is not None:
                yield from at_least(0, (*place, name), value)


class RandomFaults(Part):
    """So many faults drawn by the schedule's seed, between two moments. Each is of one of the `kinds` and strikes one of `what`;
    every pair of both that there can be is as likely.

    What was killed is started again after `back_after_s`, what lasts does so `for_s`, a slow PE takes `by_s` longer for each epoch.
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
        """What can be drawn: each kind with each whom it can strike."""
        return [(kind, what) for kind in self.kinds for what in self.what if what in VICTIMS[kind]]

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "count"), self.count)
        yield from at_least(0, (*place, "from_s"), self.from_s)
        yield from at_least(self.from_s, (*place, "to_s"), self.to_s)
        for name in ("back_after_s", "for_s", "by_s"):
            yield from at_least(0, (*place, name), getattr(self, name))
        if not self.what:
            yield FieldError((*place, "what"), "is empty; say whom the faults may strike")
        if not self.kinds:
            yield FieldError((*place, "kinds"), "is empty; say what may happen, such as crash")
        elif self.what:
            yield from self._selector_errors(place)

    def _selector_errors(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        """Kinds that can strike nobody of `what`, and whom of `what`, where it is given, none of the kinds can strike."""
        struck = list(dict.fromkeys(what for kind in self.kinds for what in VICTIMS[kind]))
        for index, what in enumerate(self.what):
            if what not in struck and "what" in self.model_fields_set:
                yield unexpected((*place, "what", index), f"one of {', '.join(struck)}", what)
        for index, kind in enumerate(self.kinds):
            if not {*VICTIMS[kind]} & {*self.what}:
                yield FieldError(
                    (*place, "kinds", index), f"a {kind} strikes {' or '.join(VICTIMS[kind])}, and 'what' has none of them"
                )

    def drawn(self, rng: random.Random, *, tasks: Sequence[str], nodes: Sequence[str]) -> Iterable[ScheduledFault]:
        """The single faults, in no order."""
        for _ in range(self.count):
            kind, what = rng.choice(self.mix)
            among = tasks if what == "pe" else () if what in ("orchestrator", "disk") else nodes
            yield ScheduledFault(
                at_s=round(rng.uniform(self.from_s, self.to_s), 3),
                kind=kind,
                what=what,
                target=(rng.choice(sorted(among)),) if among else (),
                for_s=self.for_s if kind in LASTING else None,
                by_s=self.by_s if kind == "slow" else None,
                back_after_s=self.back_after_s if kind == "crash" else None,
            )


class Stalls(Part):
    """Stalls that come again (ISORC'16, section V): every `every_s` seconds a `share` of the PEs, or of the nodes, for `for_s`.

    `how`: that share of the PEs sleeps (`sleep`), or that share of the nodes has its PE host stopped by SIGSTOP, with all PEs on it
    (`stop`), or is hogged (`hog`). Who is struck is drawn anew each time, at least one.
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
        """The single faults, one for each time."""
        among = sorted(pes if self.how == "sleep" else nodes)
        what: Victim = {"sleep": "pe", "stop": "host", "hog": "node"}[self.how]  # type: ignore[assignment]  # its three values
        count = max(1, int(self.share * len(among) + 0.5))  # of five, half are three
        at_s = self.from_s
        while among and at_s <= self.to_s:
            struck = tuple(sorted(rng.sample(among, count)))
            kind: Kind = "hog" if self.how == "hog" else "stall"
            yield ScheduledFault(at_s=at_s, kind=kind, what=what, target=struck, for_s=self.for_s)
            at_s += self.every_s


class Schedule(Document):
    """Faults in time. The same seed draws the same faults.

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
        """Every fault in order of time, the random ones drawn for these tasks and nodes; `pes` are the tasks that may stall."""
        given: list[ScheduledFault] = list(self.faults)
        if self.random is not None:
            given += self.random.drawn(random.Random(self.seed), tasks=tasks, nodes=nodes)
        if self.stalls is not None:
            given += self.stalls.drawn(random.Random(self.seed), pes=tasks if pes is None else pes, nodes=nodes)
        return sorted(given, key=lambda fault: (fault.at_s, fault.kind, fault.what, fault.target))
