"""The job document: what to run, what the job promises, and what to do when a part of it fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, Place, above, at_least, between, unexpected
from holdfast.documents.light_pe import A_NAME, MAX_REPLICAS, is_of_other, light_errors
from holdfast.documents.light_pe import NAME as NAME
from holdfast.documents.light_pe import LightPe as LightPe

MAX_PES = 10_000
"""The most PEs that one job may define. Checking a document with millions would block the orchestrator."""


class Predicting(Part):
    """How the output of a late PE is predicted (ISORC'16, section IV-B).

    `keys` are the columns that identify a series; by default, those of the operator that produces the stream. Numeric columns
    are predicted, except columns to `carry` over from the key's last row and columns to leave `blank`. A prediction begins `lead_s`
    before the deadline. After `most_epochs` predicted epochs in a row, the recovery manager takes over. A key with fewer than
    `least_outputs` outputs gets its last outcome or is left out (`short`). The agent caches `depth` values per key and column, and
    trains again every `train_every` epochs. `algorithms` maps the names of installed predictors to their parameters; if it is
    empty, all predictors of holdfast are used. The best predictor has the largest share of values within 5 % of the truth, or the
    least error relative to the values (`measure`). If a column was found to equal a column of the input, the input's value is used
    while that is more accurate, unless `from_input` is false.
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
    """What a job promises for a PE: how much is replayed after a failure, and what happens until then.

    `protection` is what happens when a PE is late. `none`: consumers wait. `upstream`: when an epoch has been overdue for
    `reroute_after_s`, its input is re-routed to an idle replica. `prediction`: if the output of an epoch is not there `deadline_s`
    after its last input (by the wall clock, at least an epoch's length), it is predicted according to `predicting`.

    `tentative_after_s` is how long consumers wait for a dead producer before they continue without it; None means forever.
    `correction` is whether tentative output is computed again when the producer is back. A `quiet` secondary writes only if the
    primary has not written `patience_s` after the secondary had the epoch ready; an `eager` secondary always writes. `retries` is
    how often a failed epoch is tried again before the PE or sink fails. `catch_up_rows` is the most input rows of one catch-up job.
    Spark's executors read, process and write epochs that read at least `executor_rows` rows, kept and new. For fewer rows, the PE
    host is faster.
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
    executor_rows: int = 200_000

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(1, (*place, "checkpoint_epochs"), self.checkpoint_epochs)
        if self.tentative_after_s is not None:
            yield from at_least(0, (*place, "tentative_after_s"), self.tentative_after_s)
        if self.deadline_s is not None:
            yield from above(0, (*place, "deadline_s"), self.deadline_s)
        elif self.protection == "prediction":
            text = "is missing; prediction needs the seconds after its last input by which an epoch's output is due"
            yield FieldError((*place, "deadline_s"), text)
        yield from above(0, (*place, "reroute_after_s"), self.reroute_after_s)
        yield from at_least(0, (*place, "patience_s"), self.patience_s)
        yield from at_least(0, (*place, "retries"), self.retries)
        yield from at_least(1, (*place, "catch_up_rows"), self.catch_up_rows)
        yield from at_least(1, (*place, "executor_rows"), self.executor_rows)


class Policy(Part):
    """What happens when a replica of a PE fails.

    `restart` is where it restarts: on the same node (`here`), on another node if one has room and otherwise on the same one
    (`elsewhere`), only while the PE has no living replica (`missing`), or `never`. After the n-th failure in a row it waits
    `backoff_s` times 2 to the n-1, at most `backoff_max_s`. After `give_up_after` failures the PE is abandoned. `then` the job
    continues without it (`continue`) or is canceled (`cancel`). A job that continues has failed when it ends, because the output
    that needed the PE is incomplete. Failures are in a row if the PE gets no further in between. The death of a node or PE host
    delays the restart, but does not count towards `give_up_after`.

    A replica that has work but makes no progress for `hung_after_s`, plus the time that some epochs take, is hung and counts as
    failed, unless `restart` is `never`. None means that it is never considered hung. The contract's `protection` covers shorter
    delays.
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
    """Where the rows of the sources come from: a recorded trace at a speed or, without a trace, the application's readers.

    Spark stores the progress of each reader under `checkpoints`, a folder or URL that Spark can use and all nodes can reach. None
    means under the log, which must then be a folder.
    """

    trace: str | None = None
    columns: str | None = None
    speed: float = 1.0
    checkpoints: str | None = None


class Adapting(Part):
    """How a plan follows the measured rates: with at most `budget` replicas, checked every `every_s` seconds.

    A replica is started only if that improves the objective (`of`: output fidelity, `ic`: completeness) by `move_worth`.
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
    """What a replica needs of its node: cores and memory. 0 means unknown; such a replica counts like any other."""

    cores: float = 0.0
    memory_mib: float = 0.0

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "cores"), self.cores)
        yield from at_least(0, (*place, "memory_mib"), self.memory_mib)

    def __str__(self) -> str:
        parts = [f"{self.cores:g} cores"] if self.cores else []
        return " and ".join([*parts, f"{self.memory_mib:g} MiB"] if self.memory_mib else parts) or "a place"


NO_NEED = Need()


class Job(Document):
    """A job as it is submitted: either an `application` (the path of its file), or the `pes` themselves.

    `type` names the job's state machine, `host_kind` the kind of PE host that runs it. `streams` feeds sources of the application
    from streams of other jobs: it maps a source to `job:stream`. With `share`, the PEs that produce those streams, and all PEs
    that feed them, are shared with the other jobs and live until this job has ended too. Without `sync`, a `log` and an `out` in
    a folder are written faster, but may not survive a power loss. `replicas` is the number of replicas per PE (or PE/task);
    otherwise a `plan` or a `strategy` (paths) decides. With `adapt`, the plan follows the rates while the job runs. `needs` is
    what each replica of a PE (or PE/task) needs of its node. `contracts` replaces the contract for single PEs.
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
    sync: bool = True
    plan: str | None = None
    strategy: str | None = None
    adapt: Adapting | None = None
    replicas: dict[str, int] = Field(default_factory=dict)
    needs: dict[str, Need] = Field(default_factory=dict)
    contract: Contract = Field(default_factory=Contract)
    contracts: dict[str, Contract] = Field(default_factory=dict)
    policy: Policy = Field(default_factory=Policy)

    def errors(self) -> Iterable[FieldError]:
        """Yield every error of the job that can be detected without its application."""
        if not NAME.fullmatch(self.job):
            yield unexpected(("job",), A_NAME, self.job)
        if (self.application is None) == (self.pes is None):
            yield FieldError((), "wanted either 'application' or 'pes', got " + ("neither" if self.pes is None else "both"))
        if self.plan is not None and self.strategy is not None:
            yield FieldError((), "has both 'plan' and 'strategy'; give the one that decides the replicas")
        if self.adapt is not None:
            if self.plan is None:
                yield FieldError(("adapt",), "wanted a 'plan' to start with, got none")
            yield from self.adapt.errors_at(("adapt",))
        if self.application is not None and self.log is None:
            yield FieldError(("log",), "is missing; give a folder or an object store's URL that all nodes of the job can reach")
        yield from self._switching_conflicts()
        for source, stream in self.streams.items():
            if not is_of_other(stream):
                yield unexpected(("streams", source), "'job:stream'", stream)
        if self.share and not (self.streams or any(":" in stream for pe in (self.pes or {}).values() for stream in pe.reads)):
            text = "requires that the job reads a stream of another job, and this one reads none"
            yield FieldError(("share",), text, (("streams",), ("pes",)))
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
                yield FieldError(("host_kind",), f"wanted 'light' for a job that defines its PEs, got '{self.host_kind}'")

    def _unused(self) -> Iterable[FieldError]:
        """Yield an error for each field that needs an application, in a job that defines its PEs."""
        for name in ("plan", "strategy", "adapt", "streams", "log", "out"):
            if getattr(self, name):
                yield FieldError((name,), "needs an 'application'; a job that defines its PEs cannot use it")
        for name in ("trace", "columns", "checkpoints"):
            if getattr(self.feed, name) is not None:
                yield FieldError(("feed", name), "needs an 'application'; a job that defines its PEs cannot use it")

    def _switching_conflicts(self) -> Iterable[FieldError]:
        """Yield errors for upstream backup together with another mechanism that switches replicas: each would undo the other."""
        other = "adapt" if self.adapt is not None else "strategy" if self.strategy is not None else None
        places: list[tuple[Place, Contract]] = [(("contract",), self.contract)]
        places += [(("contracts", name), contract) for name, contract in self.contracts.items()]
        for place, contract in places:
            if other is not None and contract.protection == "upstream":
                text = f"'upstream' wakes and idles replicas, and so does '{other}'; give one of them"
                yield FieldError((*place, "protection"), text)

    def contract_of(self, pe: str) -> Contract:
        """Return the contract of one PE."""
        return self.contracts.get(pe, self.contract)

    def has_agent(self, task: Task) -> bool:
        """Return whether a prediction agent of this job watches a task. The other job watches a shared PE."""
        return task.kind == "operators" and task.shared is None and self.contract_of(task.pe).protection == "prediction"

    def need_of(self, task: str) -> Need:
        """Return what each replica of a task needs of its node."""
        return self.needs.get(task) or self.needs.get(task.rpartition("/")[0]) or NO_NEED


class Reading(Part):
    """One input of a task: the tasks of a stream that it reads, and which of their rows.

    The rows are divided by `key` into `of` parts, and the task reads part number `share`; if `of` is 1, it reads all rows.
    `job` is set if the stream belongs to another job; `name` is then the source of this job that the stream feeds.
    """

    stream: str
    name: str | None = None
    tasks: tuple[int, ...] = (0,)
    key: tuple[str, ...] = ()
    share: int = 0
    of: int = 1
    job: str | None = None


class Task(Part):
    """One task of a PE, source or sink: the unit of placement, replication and recovery."""

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
    """The tasks of a job in topological order, and where their replicas should run.

    `nodes` maps the name of a task to the nodes that a strategy chose for its replicas; it is empty if placement is free.
    `settings` holds what the job's kind of PE host needs. The orchestrator passes it on without reading it.
    """

    application: str
    tasks: tuple[Task, ...]
    nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
