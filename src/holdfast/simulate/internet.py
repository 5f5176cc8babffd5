"""A day of a data center: 10,000 PEs of many applications on 1,000 hosts in racks, a real arrival profile, correlated failures.

Failures come at the rates that J. Dean gave for a new cluster of about 1,800 machines in its first year ("Designs, Lessons and
Advice from Building Large Distributed Systems", LADIS 2009): 1,000 machine failures; 20 racks that disappear with their 40 to 80
machines for one to six hours; one power distribution unit that takes 500 to 1,000 machines away for about six hours.
"""

from __future__ import annotations

import csv
import gzip
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import TraceError
from holdfast.model.descriptor import Contract, Descriptor, Host, Input, JointRate, Pe, Rate, Sink, Source
from holdfast.model.schedule import Schedule, ScheduledFault
from holdfast.plan.laar.rates import expected_rates
from holdfast.simulate.deployment import Deployment
from holdfast.simulate.rates import RateTrace
from holdfast.simulate.settings import Care, Control, Settings
from holdfast.simulate.simulation import simulate
from holdfast.simulate.state import Flags, Floats, Ints

MACHINES = 1800
YEARLY = {"machine": 1000.0, "rack": 20.0, "pdu": 1.0}
RACK_HOURS, PDU_HOURS, PDU_SHARE = (1.0, 6.0), 6.0, (500 / 1800, 1000 / 1800)
MACHINE_HOURS = 1.0
"""How long a machine that failed is away: not in the source, taken as the time to swap its work's place and reinstall."""
DAY_S, MINUTE_S = 86_400.0, 60.0
LEVELS = ("low", "middle", "high")
VARIANTS = ("NR", "SR", "LAAR", "PPA", "combined")
DAYS = ("rack", "pdu")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large: applications of so many PEs each, on racks of hosts. The fullest minute asks `overload` of all CPU time when every
    replica is active; `seed` draws applications, rates and failures."""

    applications: int = 400
    pes: int = 25
    racks: int = 25
    hosts: int = 40
    overload: float = 1.4
    seed: int = 1
    step_s: float = 10.0

    @property
    def machines(self) -> int:
        return self.racks * self.hosts


def read_profile(path: Path, day: str) -> Floats:
    """Requests in each minute of a day, from a CSV (also gzipped) with columns `period` and `count`."""
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row.get("period") or "").startswith(day)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"profile '{path}' cannot be read: {error}") from None
    counts = np.zeros(1440)
    for row in rows:
        hour, minute = row["period"].split(" ")[1].split(":")[:2]
        counts[60 * int(hour) + int(minute)] = float(row["count"])
    if not counts.any():
        raise TraceError(f"profile '{path}' has no requests on {day}; give a day that it covers, as 1998-06-30")
    return counts


def generated_profile(rng: np.random.Generator) -> Floats:
    """A day that is calm at night and has one evening peak, with noise of a few per cent."""
    minute = np.arange(1440)
    swell = 1 + 0.8 * np.sin((minute - 540) / 1440 * 2 * np.pi)
    peak = 2.2 * np.exp(-(((minute - 1230) / 60) ** 2))
    return np.asarray(1000 * (swell + peak) * rng.lognormal(0, 0.05, 1440), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class World:
    """The data center: its applications as one descriptor, where replicas are, and the day's rates. `application[i]` is PE i's."""

    scale: Scale
    descriptor: Descriptor
    host_of: Ints
    application: Ints
    work: Floats  # [level, PE], CPU seconds a second
    tuples: Floats  # [level, PE] that come in, a second
    trace: RateTrace

    def deployment(self, active: Flags) -> Deployment:
        rates = np.array([[c.rates[s] for s in self.descriptor.sources] for c in self.descriptor.input_configurations])
        return Deployment(self.descriptor, self.host_of, LEVELS, active, rates)

    @property
    def probability(self) -> Floats:
        return np.array([c.probability for c in self.descriptor.input_configurations])


def build(scale: Scale, profile: Floats) -> World:
    """Applications drawn by seed; with every replica active the profile's fullest minute overloads the hosts."""
    rng = np.random.default_rng([scale.seed, 0])
    shape = profile / profile.max()
    bounds = np.quantile(shape, [0.5, 0.9, 1.0])
    shares = [0.5, 0.4, 0.1]
    levels = list(zip(LEVELS, bounds, shares, strict=True))
    popularity = rng.lognormal(0, 1, scale.applications)
    peak_rates = 200.0 * popularity / popularity.mean()
    sources, pes, sinks, application = {}, {}, {}, []
    for a in range(scale.applications):
        source = f"source{a:03d}"
        sources[source] = Source(rates=tuple(Rate(name=n, rate=float(peak_rates[a] * b), probability=p) for n, b, p in levels))
        names = [f"app{a:03d}/pe{n:02d}" for n in range(scale.pes)]
        read: set[str] = set()
        for n, name in enumerate(names):
            tails = {source} if n == 0 else {names[int(t)] for t in rng.integers(max(0, n - 5), n, 1 + int(rng.random() < 0.5))}
            read |= tails
            inputs = {tail: Input(selectivity=rng.uniform(0.4, 1.0), cost=rng.uniform(0.5, 1.5)) for tail in sorted(tails)}
            pes[name] = Pe(inputs=inputs)
            application.append(a)
        sinks[f"sink{a:03d}"] = Sink(inputs=tuple(name for name in names if name not in read))
    hosts = {f"host{r:02d}-{h:02d}": Host(cores=16.0, rack=f"rack{r:02d}") for r in range(scale.racks) for h in range(scale.hosts)}
    # Not checked anew: ten thousand PEs that were made right by construction.
    descriptor = Descriptor.model_construct(
        application="data center",
        sources=sources,
        configurations=tuple(JointRate(rates=dict.fromkeys(sources, n), probability=p) for n, _, p in levels),
        pes=pes,
        sinks=sinks,
        hosts=hosts,
        replicas=2,
        placement=None,
        contract=Contract(),
    )
    return _loaded(scale, descriptor, np.array(application), shape, peak_rates)


def _loaded(scale: Scale, descriptor: Descriptor, application: Ints, shape: Floats, peak_rates: Floats) -> World:
    order = descriptor.topological_order
    place = {pe: n for n, pe in enumerate(descriptor.pes)}
    application = application[[place[pe] for pe in order]]
    rates = [expected_rates(descriptor, c) for c in descriptor.input_configurations]
    tuples = np.array([[sum(rate[i] for i in descriptor.pes[pe].inputs) for pe in order] for rate in rates])
    work = np.array([[sum(e.cost * rate[i] for i, e in descriptor.pes[pe].inputs.items()) for pe in order] for rate in rates])
    factor = scale.overload * sum(host.cores for host in descriptor.hosts.values()) / (2 * work[-1].sum())
    scaled = {
        name: Pe(inputs={i: Input(selectivity=e.selectivity, cost=e.cost * factor) for i, e in pe.inputs.items()})
        for name, pe in descriptor.pes.items()
    }
    loaded = descriptor.model_copy(update={"pes": scaled})
    host_of = _placed(scale, work[-1] * factor)
    trace = RateTrace(tuple(descriptor.sources), shape[:, None] * peak_rates[None, :], MINUTE_S)
    return World(scale, loaded, host_of, application, work * factor, tuples, trace)


def _placed(scale: Scale, work: Floats) -> Ints:
    """Heaviest first, each replica on the emptiest host, the second in another rack than the first."""
    load = np.zeros((scale.racks, scale.hosts))
    host_of = np.zeros((len(work), 2), dtype=np.int64)
    for i in np.argsort(-work, kind="stable"):
        first = int(np.argmin(load))
        load.flat[first] += work[i]
        elsewhere = load.copy()
        elsewhere[first // scale.hosts] = np.inf
        second = int(np.argmin(elsewhere))
        load.flat[second] += work[i]
        host_of[i] = first, second
    return host_of


def strategies(world: World, *, sla: float = 0.7, budget: float = 0.5) -> dict[str, Flags]:
    """Who is active at which level, by variant.

    Replicas pay only where everything upstream has them too, so applications are taken whole. LAAR: those that bring most
    completeness for their CPU time, level by level, until the SLA is met, where the hosts can carry them (Eq. 9 to 12, by density;
    no exact solver takes thirty thousand decisions). PPA: those that put most through a replica, for half of the PEs, whatever the
    load. Combined: as LAAR, to all that the hosts can carry, over checkpoints.
    """
    levels, pes = world.work.shape
    one = np.zeros((levels, pes, 2), dtype=np.bool_)
    one[:, np.arange(pes), _lone(world)] = True
    return {
        "NR": one,
        "SR": np.ones_like(one),
        "LAAR": _by_density(world, one, sla=sla),
        "PPA": _by_worth(world, one, budget=budget),
        "combined": _by_density(world, one, sla=1.0),
    }


def _lone(world: World) -> Ints:
    """Which replica of each PE runs where only one does: heaviest first, the one on the emptier host."""
    load = np.zeros(world.scale.machines)
    lone = np.zeros(world.work.shape[1], dtype=np.int64)
    for i in np.argsort(-world.work[-1], kind="stable"):
        lone[i] = int(np.argmin(load[world.host_of[i]]))
        load[world.host_of[i, lone[i]]] += world.work[-1, i]
    return lone


def _by_density(world: World, one: Flags, *, sla: float) -> Flags:
    active, capacity = one.copy(), 16.0 * (1 - 1e-9)
    apps = int(world.application.max()) + 1
    tuples = np.array([np.bincount(world.application, row, apps) for row in world.tuples]) * world.probability[:, None]
    work = np.array([np.bincount(world.application, row, apps) for row in world.work]) * world.probability[:, None]
    lone = one[0].argmax(axis=1)
    everyone = np.arange(len(lone))
    load = np.array([np.bincount(world.host_of[everyone, lone], row, world.scale.machines) for row in world.work])
    kept, total = 0.0, tuples.sum()
    members = [np.flatnonzero(world.application == a) for a in range(apps)]
    density = tuples / work
    for c, a in sorted(np.ndindex(*tuples.shape), key=lambda ca: (-density[ca], ca)):
        if kept >= sla * total:
            break
        other = 1 - lone[members[a]]
        adds = np.bincount(world.host_of[members[a], other], world.work[c, members[a]], world.scale.machines)
        if (load[c] + adds <= capacity).all():
            load[c] += adds
            active[c, members[a]] = True
            kept += float(tuples[c, a])
    return active


def _by_worth(world: World, one: Flags, *, budget: float) -> Flags:
    active = one.copy()
    apps = int(world.application.max()) + 1
    through = np.bincount(world.application, world.tuples[-1], apps)
    left = int(budget * world.work.shape[1])
    for a in np.argsort(-through, kind="stable"):
        members = np.flatnonzero(world.application == a)
        if len(members) <= left:
            active[:, members] = True
            left -= len(members)
    return active


def settings(world: World, variant: str) -> Settings:
    """Heartbeats of 10 s, queues of a minute; PPA and the combined plan make checkpoints every five minutes."""
    passive = variant in ("PPA", "combined")
    care = Care(
        detect_s=10.0,
        restart_s=30.0,
        scheme="checkpoint" if passive else "none",
        checkpoint_s=300.0,
        window_s=60.0,
        # A tenth of what it takes to process a tuple of the mean cost, for each tuple of state.
        checkpoint_tuple_s=0.1 * float(world.work.sum() / world.tuples.sum()) if passive else 0.0,
    )
    control = Control(every_s=60.0, tolerance=0.05, steady=3, switch_s=10.0, resync_s=10.0, replace_dead=variant == "combined")
    return Settings(step_s=world.scale.step_s, queue_s=60.0, interval_s=600.0, control=control, care=care)


def failures(world: World, day: str) -> Schedule:
    """The day's faults by seed: machines at their rate, and one rack or power unit in the busiest hour."""
    scale = world.scale
    rng = np.random.default_rng([scale.seed, 1 + DAYS.index(day)])
    hosts = list(world.descriptor.hosts)
    faults = [
        ScheduledFault(
            at_s=float(rng.uniform(0, DAY_S)),
            kind="crash",
            what="node",
            target=(hosts[int(rng.integers(len(hosts)))],),
            back_after_s=MACHINE_HOURS * 3600,
        )
        for _ in range(rng.poisson(YEARLY["machine"] * scale.machines / MACHINES / 365))
    ]
    busiest = int(np.argmax(np.convolve(world.trace.rates.sum(axis=1), np.ones(60), "valid")))
    at_s = (busiest + float(rng.uniform(0, 60))) * MINUTE_S
    if day == "rack":
        count, hours = 1, float(rng.uniform(*RACK_HOURS))
    else:
        count, hours = max(1, round(float(rng.uniform(*PDU_SHARE)) * scale.racks)), PDU_HOURS
    racks = tuple(f"rack=rack{int(r):02d}" for r in sorted(rng.choice(scale.racks, count, replace=False)))
    faults.append(ScheduledFault(at_s=at_s, kind="crash", what="node", target=racks, back_after_s=hours * 3600))
    return Schedule(faults=tuple(faults))


@dataclass(frozen=True, slots=True)
class Task:
    """One variant on one day."""

    scale: Scale
    day: str
    variant: str
    profile: tuple[float, ...]

    @property
    def key(self) -> str:
        return f"{self.day}/{self.variant}"


def evaluate(task: Task) -> dict[str, Any]:
    """What a variant cost and lost on one day; `seconds` and `rss_mib` are what it took to find out."""
    began = time.perf_counter()
    world = build(task.scale, np.array(task.profile))
    deployment = world.deployment(strategies(world)[task.variant])
    faults = failures(world, task.day)
    how = settings(world, task.variant)
    struck = simulate(deployment, world.trace, schedule=faults, settings=how)
    ideal = struck.deployment.ideal(struck.source_tuples).sum()
    every_s = struck.settings.interval_s
    latencies = [back.latency_s for back in struck.returns()]
    return {
        "key": task.key,
        "day": task.day,
        "variant": task.variant,
        "cpu_s": float(struck.cpu_s.sum()),
        "lost": 1 - float(struck.ledger.processed.sum()) / float(ideal),
        "waiting_s": float(struck.ledger.queued.sum() * every_s / ideal),
        "output": (struck.output_tuples / every_s).tolist(),
        "busy": (struck.ledger.cpu.sum(axis=1) / (every_s * 16.0 * world.scale.machines)).tolist(),
        "recoveries": len(latencies),
        "latency_s": float(np.mean(latencies)) if latencies else None,
        "faults": [fault.model_dump(mode="json") for fault in faults.faults],
        "seconds": time.perf_counter() - began,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def yearly(records: Mapping[str, Mapping[str, Any]], scale: Scale) -> dict[str, dict[str, float]]:
    """Each variant's CPU time a day, and the tuples lost in a year by kind of day, in days' worth of all tuples."""
    times = {day: YEARLY[day] * scale.machines / MACHINES for day in DAYS}
    return {
        variant: {
            "cpu_s": float(np.mean([records[f"{day}/{variant}"]["cpu_s"] for day in DAYS])),
            **{f"{day}_days": times[day] * records[f"{day}/{variant}"]["lost"] for day in DAYS},
        }
        for variant in VARIANTS
    }
