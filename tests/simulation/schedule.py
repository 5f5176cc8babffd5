"""A schedule: a configuration and faults. Playing it twice gives the same history."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, replace

from holdfast.documents.job import Contract, Policy

from . import rows, seams
from .faults import Fault, arm, draw_faults, end_s, failures
from .laws import Violation, Watch
from .scheduler import START_S, Scheduler, StuckError
from .workload import EPOCHS, WORKLOADS, Workload, job_of, workload
from .world import JobModel, World

REST_S = 240.0
"""How long after the last fault everything may take to come to rest."""


@dataclass(frozen=True)
class Config:
    """What a schedule runs. `seed` determines the interleaving. `replicas` is the number of replicas per task, in order. A second
    job reads a stream of the first one from `joins_s` on. With a strategy, the rates decide which replicas are active.
    The first job is canceled at `canceled_s`, and a successor continues its log. Executors store the rows of epochs of at least
    `executor_rows` rows."""

    seed: int
    workload: int
    replicas: tuple[int, ...]
    nodes: int = 3
    offsets_s: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    checkpoint_epochs: int = 4
    tentative_after_s: float | None = None
    correction: bool = True
    protection: str = "none"
    secondary: str = "quiet"
    patience_s: float = 0.5
    restart: str = "elsewhere"
    hung_after_s: float = 20.0
    observe_every_s: float = 1.0
    joins_s: float | None = None
    strategy: bool = False
    canceled_s: float | None = None
    executor_rows: int = 100_000


@dataclass(frozen=True)
class Schedule:
    """A configuration and the faults that happen in it."""

    config: Config
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Outcome:
    """What happened: broken laws, a digest of the whole history, how much virtual time and how many operations it took."""

    violations: tuple[Violation, ...]
    digest: str
    took_s: float
    operations: int
    epochs: int
    tentative: int

    @property
    def first(self) -> str:
        return str(self.violations[0]) if self.violations else "all laws hold"


def draw_schedule(seed: int) -> Schedule:
    """Return a random schedule."""
    rng = random.Random(f"schedule {seed}")
    number = rng.randrange(WORKLOADS)
    load = workload(number)
    protection = rng.choice(["none", "none", "none", "upstream"])
    replicas = tuple(
        1
        if task.kind == "source" and load.feed == "reader"
        else rng.choice([1, 1, 2])
        if task.kind != "operators"
        else rng.choice([1, 2, 2])
        for task in load.layout.tasks
    )
    skew_s = rng.choice([0.0, 0.0, 0.3, 3.0, 30.0])
    config = Config(
        seed=rng.randrange(2**31),
        workload=number,
        replicas=replicas,
        offsets_s=tuple(round(rng.uniform(-skew_s, skew_s), 2) for _ in range(4)),
        checkpoint_epochs=rng.choice([1, 2, 3, 5, 10]),
        tentative_after_s=rng.choice([None, 0.0, 1.0, 3.0, 20.0]),
        correction=rng.random() < 0.9,
        protection=protection,
        secondary=rng.choice(["quiet", "eager"]),
        patience_s=rng.choice([0.1, 0.5, 2.0]),
        restart=rng.choice(["elsewhere", "elsewhere", "here", "missing"]),
        observe_every_s=rng.choice([0.5, 1.0, 2.0]),
    )
    config = replace(config, executor_rows=random.Random(f"paths {seed}").choice([1, 12, 100_000, 100_000]))
    if rng.random() < 0.25 and config.correction and load.feed == "trace" and shared_stream(load) is not None:
        config = replace(config, joins_s=round(rng.random() * 18, 2))
    elif rng.random() < 0.25:
        config = replace(config, canceled_s=round(rng.random() * 18, 2))
    if protection == "none" and rng.random() < 0.25:
        replicas = tuple(2 if task.kind == "operators" else count for task, count in zip(load.layout.tasks, replicas, strict=True))
        config = replace(config, strategy=True, replicas=replicas)
    names = [f"{task.name}.{n}" for task, count in zip(load.layout.tasks, replicas, strict=True) for n in range(count)]
    count = rng.choice([1, 2, 3, 4, 6, 8])
    return Schedule(config, draw_faults(rng, nodes=[f"n{n}" for n in range(config.nodes)], replicas=names, count=count))


def play(schedule: Schedule, *, keep: list[World] | None = None) -> Outcome:
    """Run a schedule and check the laws."""
    rows.limit_memory()
    codec = seams.Codec()
    config = schedule.config
    with seams.installed(codec):
        scheduler = Scheduler(config.seed)
        world = World(scheduler, nodes=config.nodes, offsets_s=list(config.offsets_s), observe_every_s=config.observe_every_s)
        if keep is not None:
            keep.append(world)
        world.on_disk = any(fault.kind == "lose-power" for fault in schedule.faults)
        watch = Watch(world, codec)
        give_up_after = 1 + failures(schedule.faults)
        world.job_count = 1 if config.joins_s is None else 2
        world.place(_job_model(config, give_up_after=give_up_after))
        if config.joins_s is not None:
            scheduler.call_at(START_S + config.joins_s, lambda: world.place(_joining_model(config, give_up_after=give_up_after)))
        if config.canceled_s is not None:
            world.job_count = 2
            first, successor = world.jobs[1], _job_model(config, give_up_after=give_up_after, number=2)
            successor.targets, successor.queries, successor.checkpoints = first.targets, first.queries, first.checkpoints
            scheduler.call_at(START_S + config.canceled_s, lambda: world.cancel(first, successor))
        for fault in schedule.faults:
            arm(world, fault)
        quiet_s = START_S + max(end_s(schedule.faults), EPOCHS)
        next_s = START_S + EPOCHS

        def done() -> bool:
            nonlocal next_s
            if scheduler.now_s < next_s:
                return False
            next_s = scheduler.now_s + 0.5
            return _is_at_rest(world, watch)

        try:
            scheduler.run(quiet_s + REST_S, done=done)
            if not _is_at_rest(world, watch):
                watch.report("rest", f"something waits for ever: {_unfinished(world)}")
        except StuckError as error:
            watch.report("rest", str(error))
        for each in world.jobs.values():
            if not each.is_canceled:
                watch.check_job(each)
        watch.check_history()
        outcome = Outcome(
            tuple(watch.violations),
            hashlib.sha256(repr(world.history).encode()).hexdigest()[:16],
            scheduler.now_s - START_S,
            scheduler.operations,
            sum(kind == "commit" for _, kind, _ in world.history),
            sum(kind == "commit" and about["quality"] == "tentative" for _, kind, about in world.history),
        )
        _end(world)
    return outcome


def shared_stream(load: Workload) -> str | None:
    """Return a stream that another job can read: the last one that a single task produces."""
    producers = Counter(stream for task in load.layout.tasks for stream in task.makes)
    return next((stream for stream in reversed(producers) if producers[stream] == 1), None)


def _joining_model(config: Config, *, give_up_after: int) -> JobModel:
    """Return a job that reads a stream of the first job. Its tasks have one replica each."""
    first = workload(config.workload)
    load = workload(config.workload, feeds=f"{job_of(first.layout).job}:{shared_stream(first)}")
    alone = replace(config, replicas=(1,) * len(load.layout.tasks), strategy=False)
    model = _model_of(2, load, alone, give_up_after=give_up_after)
    model.logs = {job_of(first.layout).job: job_of(first.layout).log}
    return model


def _job_model(config: Config, *, give_up_after: int, number: int = 1) -> JobModel:
    return _model_of(number, workload(config.workload), config, give_up_after=give_up_after)


def _model_of(number: int, load: Workload, config: Config, *, give_up_after: int) -> JobModel:
    contract = Contract.model_construct(
        **{
            **Contract().__dict__,
            "checkpoint_epochs": config.checkpoint_epochs,
            "tentative_after_s": config.tentative_after_s,
            "correction": config.correction,
            "protection": config.protection,
            "reroute_after_s": 3.0,
            "secondary": config.secondary,
            "patience_s": config.patience_s,
            "executor_rows": config.executor_rows,
            "retries": 3,
        }
    )
    policy = Policy.model_construct(
        **{
            **Policy().__dict__,
            "restart": config.restart,
            "backoff_max_s": 5.0,
            "give_up_after": give_up_after,
            "hung_after_s": config.hung_after_s,
        }
    )
    tasks = tuple(
        task.model_copy(update={"replicas": count}) for task, count in zip(load.layout.tasks, config.replicas, strict=True)
    )
    strategy = str(load.number) if config.strategy else None
    job = job_of(load.layout).model_copy(update={"contract": contract, "policy": policy, "strategy": strategy})
    return JobModel(number, job, load.layout.model_copy(update={"tasks": tasks}), load)


def _is_at_rest(world: World, watch: Watch) -> bool:
    """Return whether every job has done all it can."""
    return all(_has_ended(world, watch, model) for model in world.jobs.values()) and len(world.jobs) == world.job_count


def _has_ended(world: World, watch: Watch, model: JobModel) -> bool:
    if model.is_canceled:
        return True
    if model.load.is_live:
        return watch.has_all_rows(model) and watch.is_complete(model)
    return world.orchestrator is not None and not _waiting_tasks(world, model)


def _waiting_tasks(world: World, model: JobModel) -> list[str]:
    if world.orchestrator is None:
        return ["the orchestrator"]
    replicas = world.orchestrator.replicas
    return [
        task.name
        for task in model.layout.tasks
        if not model.placed or not any(replica.state == "finished" for replica in replicas.of(model.number, [task.name]))
    ]


def _unfinished(world: World) -> str:
    parts = []
    for model in (model for model in world.jobs.values() if not model.is_canceled):
        for task in _waiting_tasks(world, model):
            states = [
                f"{r.node} {r.state}{'' if r.active else ' idle'} #{r.incarnation} {r.status.live if r.status else None}"
                f"/{r.status.clean if r.status else None} {r.error or ''}"
                for r in (world.orchestrator.replicas.of(model.number, [task]) if world.orchestrator else ())
            ]
            parts.append(f"{task} ({'; '.join(states)})")
    return ", ".join(parts)


def _end(world: World) -> None:
    """Unwind all greenlets."""
    world.scheduler.now_s += 1e9
    world.kill_orchestrator()
    for node in world.nodes:
        node.kill_host()


__all__ = ["Config", "Fault", "Outcome", "Schedule", "draw_schedule", "play", "replace"]
