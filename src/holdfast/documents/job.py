"""A job as it is submitted: what to run, what is promised of it, and what to do when a part of it fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, Place, above, at_least, between, unexpected
from holdfast.documents.light_pe import A_NAME, MAX_REPLICAS, is_of_other, light_errors
from holdfast.documents.light_pe import NAME as NAME
from holdfast.documents.light_pe import LightPe as LightPe

MAX_PES = 10_000
"""PEs of one job that are written out: a document of millions would keep everybody else waiting."""


class Predicting(Part):
    """How the output of a late PE is predicted (ISORC'16, section IV-B).

    `keys` say whose row a row is: those of the operator that makes the stream, unless they are given. Numbers are predicted, but
    for columns to `carry` from the key's last row or to leave `blank`. A prediction begins `lead_s` before the deadline; after
    `most_epochs` in a row it is the recovery manager's turn. A key with fewer than `least_outputs` outputs is stood in for by its
    last outcome or left out (`short`). `depth` values are cached per key and number, and trained again every `train_every` epochs.
    `algorithms` are names of installed ones with their parameters; none: all that come with holdfast. The best is the one with the
    largest share of values within 5 % of the truth, or with the least error (`measure`), in units of the values' own size. Numbers
    that were found to be taken from the input are taken from there, while that is more accurate, unless `from_input` is false.
    """

    keys: tuple[str, ...] | None = None
    carry: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()
    lead_s: float = 0.2
    most_epochs: int = 30
    short: Literal["last-outcome", "abstain"] = "last-outcome"
    least_outputs: int = 8
    depth: int = 50
    train_every: int = 10
    measure: Literal["within", "mae", "rmse", "mse"] = "within"
    from_input: bool = True
    algorithms: dict[str, dict[str, Any]] = Field(default_factory=dict)


class Contract(Part):
    """What is promised of a PE: how much is replayed after a failure, and what happens until then.

    `protection` is what is done about a PE that is merely late. `none`: it is waited for. `upstream`: when an epoch has been
    overdue for `reroute_after_s`, its input is re-routed to a replica that was idle until then. `prediction`: an epoch whose
    output is not there `deadline_s` after its last input (by the wall clock, at least an epoch's length) is predicted, as
    `predicting` says.

    `tentative_after_s`: how long consumers wait for a dead producer before they go on without it; None: for ever. `correction`:
    whether what was made without it is made again when it is back. A `quiet` secondary writes only when the primary has been
    silent for `patience_s` after the secondary had the epoch ready, an `eager` one always. `retries`: how often an epoch that
    fails is tried again before the PE fails. `catch_up_rows`: the most input rows of one catch-up job.
    """

    checkpoint_epochs: int = 10
    tentative_after_s: float | None = None
    correction: bool = True
    protection: Literal["none", "upstream", "prediction"] = "none"
    deadline_s: float | None = None
    reroute_after_s: float = 30.0
    predicting: Predicting = Field(default_factory=Predicting)
    secondary: Literal["quiet", "eager"] = "quiet"
    patience_s: float = 0.5
    retries: int = 2
    catch_up_rows: int = 500_000

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(1, (*place, "checkpoint_epochs"), self.checkpoint_epochs)
        if self.tentative_after_s is not None:
            yield from at_least(0, (*place, "tentative_after_s"), self.tentative_after_s)
        if self.deadline_s is not None:
            yield from above(0, (*place, "deadline_s"), self.deadline_s)
        elif self.protection == "prediction":
            said = "is missing; prediction needs the seconds after its last input by which an epoch's output is due"
            yield FieldError((*place, "deadline_s"), said)
        yield from above(0, (*place, "reroute_after_s"), self.reroute_after_s)
        yield from at_least(0, (*place, "patience_s"), self.patience_s)
        yield from at_least(0, (*place, "retries"), self.retries)
        yield from at_least(1, (*place, "catch_up_rows"), self.catch_up_rows)


class Policy(Part):
    """What is done about a failed replica of a PE.

    `restart`: on the same node (`here`), on another where there is room and else here (`elsewhere`), only while the PE has no
    living replica left (`missing`), or `never`. The n-th failure in a row waits `backoff_s` times 2 to the n-1, at most
    `backoff_max_s`; after `give_up_after` of them the PE is given up, and `then` the job goes on without it (`continue`) or
    is canceled (`cancel`). One that goes on and has an end has failed there: what needed the PE is incomplete.

    A replica that has work and gets no further for `hung_after_s`, and as long as some epochs take beside, is hung and counts as
    failed, unless `restart` is `never`. None: it is waited for. What is shorter is for the contract's `protection`.
    """

    restart: Literal["here", "elsewhere", "missing", "never"] = "elsewhere"
    backoff_s: float = 0.5
    backoff_max_s: float = 60.0
    give_up_after: int = 5
    then: Literal["continue", "cancel"] = "continue"
    hung_after_s: float | None = 60.0

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "backoff_s"), self.backoff_s)
        yield from at_least(self.backoff_s, (*place, "backoff_max_s"), self.backoff_max_s)
        yield from at_least(1, (*place, "give_up_after"), self.give_up_after)
        if self.hung_after_s is not None:
            yield from above(0, (*place, "hung_after_s"), self.hung_after_s)


class Feed(Part):
    """Where the sources' rows come from: a recorded trace at a speed, or, without one, the readers that the application names.

    `checkpoints` is where Spark keeps how far each reader has come: a folder or URL that Spark itself can use, and all nodes see.
    None: in the log, which must then be a folder.
    """

    trace: str | None = None
    columns: str | None = None
    speed: float = 1.0
    checkpoints: str | None = None


class Adapting(Part):
    """How a plan follows the measured rates: at most `budget` replicas, looked at every `every_s` seconds.

    A replica is only started where that brings `move_worth` of the objective (`of`: output fidelity, `ic`: completeness).
    """

    budget: int
    every_s: float = 30.0
    move_worth: float = 0.005
    objective: Literal["of", "ic"] = "of"

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "budget"), self.budget)
        yield from above(0, (*place, "every_s"), self.every_s)
        yield from between(0, 1, (*place, "move_worth"), self.move_worth)


class Need(Part):
    """What a replica takes of its node: as many `cores`, and as much memory. 0: it is not known, and counts as any replica does."""

    cores: float = 0.0
    memory_mib: float = 0.0

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "cores"), self.cores)
        yield from at_least(0, (*place, "memory_mib"), self.memory_mib)

    def __str__(self) -> str:
        said = [f"{self.cores:g} cores"] if self.cores else []
        return " and ".join([*said, f"{self.memory_mib:g} MiB"] if self.memory_mib else said) or "a place"


NO_NEED = Need()


class Job(Document):
    """What is submitted. Either an `application` (the path of its file) or `pes` written out.

    `type` names the state machine of its life, `host_kind` the kind of PE host that runs it. `streams` lets a source of the
    application be a stream of another job: source name to `job:stream`. `share`: the PEs that make the streams which it reads of
    other jobs, and all that feed these, are shared with those jobs, and live on until this one has ended, too. `replicas` is
    per PE (or PE/task) the number of replicas; a `plan` or a `strategy` (paths) says it otherwise. `adapt` lets the plan follow
    the rates while the job runs.
    `needs` is per PE (or PE/task) what each of its replicas takes of a node. `contracts` replaces the contract for single PEs.
    """

    job: str
    type: str = "streaming"
    host_kind: str = "spark"
    application: str | None = None
    pes: dict[str, LightPe] | None = Field(default=None, max_length=MAX_PES)
    feed: Feed = Field(default_factory=Feed)
    streams: dict[str, str] = Field(default_factory=dict)
    share: bool = False
    log: str | None = None
    out: str | None = None
    plan: str | None = None
    strategy: str | None = None
    adapt: Adapting | None = None
    replicas: dict[str, int] = Field(default_factory=dict)
    needs: dict[str, Need] = Field(default_factory=dict)
    contract: Contract = Field(default_factory=Contract)
    contracts: dict[str, Contract] = Field(default_factory=dict)
    policy: Policy = Field(default_factory=Policy)

    def errors(self) -> Iterable[FieldError]:
        """Everything wrong with the job that can be seen without its application."""
        if not NAME.fullmatch(self.job):
            yield unexpected(("job",), A_NAME, self.job)
        if (self.application is None) == (self.pes is None):
            yield FieldError((), "wanted either 'application' or 'pes', got " + ("neither" if self.pes is None else "both"))
        if self.plan is not None and self.strategy is not None:
            yield FieldError((), "has both 'plan' and 'strategy'; give the one that decides the replicas")
        if self.adapt is not None:
            if self.plan is None:
                yield FieldError(("adapt",), "wanted a 'plan' to begin with, got none")
            yield from self.adapt.errors_at(("adapt",))
        if self.application is not None and self.log is None:
            yield FieldError(("log",), "is missing; give a folder or an object store's URL that all nodes of the job can see")
        yield from self._rivals()
        for source, stream in self.streams.items():
            if not is_of_other(stream):
                yield unexpected(("streams", source), "'job:stream'", stream)
        if self.share and not (self.streams or any(":" in stream for pe in (self.pes or {}).values() for stream in pe.reads)):
            said = "is for a job that reads a stream of another one, and this reads none"
            yield FieldError(("share",), said, (("streams",), ("pes",)))
        yield from above(0, ("feed", "speed"), self.feed.speed)
        yield from self.contract.errors_at(("contract",))
        for name, contract in self.contracts.items():
            yield from contract.errors_at(("contracts", name))
        yield from self.policy.errors_at(("policy",))
        for name, count in self.replicas.items():
            yield from between(1, MAX_REPLICAS, ("replicas", name), count)
        for name, need in self.needs.items():
            yield from need.errors_at(("needs", name))
        if self.pes is not None:
            yield from light_errors(self.pes, {"replicas": self.replicas, "contracts": self.contracts, "needs": self.needs})
            yield from self._unused()
            if self.host_kind != "light":
                yield FieldError(
                    ("host_kind",), f"PEs that are written out run on a PE host of kind 'light', got '{self.host_kind}'"
                )

    def _unused(self) -> Iterable[FieldError]:
        """What only an application has a use for, in a job whose PEs are written out."""
        for name in ("plan", "strategy", "adapt", "streams", "log", "out"):
            if getattr(self, name):
                yield FieldError((name,), "is for an 'application'; PEs that are written out have no use for it")
        for name in ("trace", "columns", "checkpoints"):
            if getattr(self.feed, name) is not None:
                yield FieldError(("feed", name), "is for an 'application'; PEs that are written out have no use for it")

    def _rivals(self) -> Iterable[FieldError]:
        """Upstream backup where something else switches replicas too: each would undo what the other does."""
        other = "adapt" if self.adapt is not None else "strategy" if self.strategy is not None else None
        places: list[tuple[Place, Contract]] = [(("contract",), self.contract)]
        places += [(("contracts", name), each) for name, each in self.contracts.items()]
        for place, contract in places:
            if other is not None and contract.protection == "upstream":
                said = f"'upstream' wakes and idles replicas, and so does '{other}'; give one of them"
                yield FieldError((*place, "protection"), said)

    def contract_of(self, pe: str) -> Contract:
        """The contract of one PE."""
        return self.contracts.get(pe, self.contract)

    def has_agent(self, task: Task) -> bool:
        """Whether a prediction agent watches a task; one that another job's PE stands for is watched there."""
        return task.kind == "operators" and task.shared is None and self.contract_of(task.pe).protection == "prediction"

    def need_of(self, task: str) -> Need:
        """What each replica of a task takes of its node."""
        return self.needs.get(task) or self.needs.get(task.rpartition("/")[0]) or NO_NEED


class Reading(Part):
    """One input of a task: which tasks of a stream it reads, and which share of their rows is its own.

    `share` and `of`: of the rows divided by `key` into `of` parts, the part number `share`; all rows where `of` is 1.
    `job` is set where the stream is another job's; `name` is then the source of this job that it stands for.
    """

    stream: str
    name: str | None = None
    tasks: tuple[int, ...] = (0,)
    key: tuple[str, ...] = ()
    share: int = 0
    of: int = 1
    job: str | None = None


class Task(Part):
    """One task of a PE (or of a source or sink): the unit that is placed, replicated, killed and recovered."""

    pe: str
    task: int = 0
    kind: Literal["source", "operators", "sink", "light"] = "operators"
    operators: tuple[str, ...] = ()
    reads: tuple[Reading, ...] = ()
    makes: tuple[str, ...] = ()
    replicas: int = 1
    shared: str | None = None

    @property
    def name(self) -> str:
        return f"{self.pe}/{self.task}"


class Layout(Document):
    """A job taken apart: its tasks, each after those it reads, and where each of their replicas is wanted.

    `nodes` is per task name the node names that a strategy gave its replicas; empty where placement is free. `settings` is whatever
    the job's kind of PE host needs to know, passed on unread.
    """

    application: str
    tasks: tuple[Task, ...]
    nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
