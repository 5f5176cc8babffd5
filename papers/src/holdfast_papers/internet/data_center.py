"""A day of a data center: 10,000 PEs of many applications on 1,000 nodes in racks, a real arrival profile, correlated failures.

Failures come at the rates that J. Dean gave for the first year of a new cluster ("Handling Large Datasets at Google: Current
Systems and Future Directions", Data-Intensive Computing Symposium 2008; of 1,800 machines, as he said at Google I/O 2008): 1,000
machine failures; 20 racks that disappear with their 40 to 80 machines for one to six hours; one power distribution unit that
fails with 500 to 1,000 machines for about six hours.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import numpy as np

from holdfast.documents import (
    Descriptor,
    DescriptorNode,
    DescriptorSink,
    DescriptorSource,
    Input,
    JointRate,
    Pe,
    PricingContract,
    Rate,
    Schedule,
    ScheduledFault,
)
from holdfast.errors import TraceError
from holdfast.planning.laar import expected_rates
from holdfast_papers.arrays import Flags, Floats, Ints
from holdfast_papers.simulate import Deployment, RateTrace

MACHINES = 1800
YEARLY = {"machine": 1000.0, "rack": 20.0, "pdu": 1.0}
RACK_HOURS, PDU_HOURS, PDU_SHARE = (1.0, 6.0), 6.0, (500 / 1800, 1000 / 1800)
MACHINE_HOURS = 1.0
"""How long a failed machine is down: assumed, because the source gives no value."""
DAY_S, MINUTE_S = 86_400.0, 60.0
BUSIEST_MINUTE = 720
"""The minute of the simulated day at which its busiest hour begins, so that failed machines recover before the day ends."""
CORES, HEAVIEST = 16.0, 0.5
"""Cores of a node, and the share of them that a PE may need: one that needs more would be divided into several."""
LEVELS = ("low", "middle", "high")
DAYS = ("rack", "pdu", "calm")
"""A rack fails, a power unit fails, nothing fails."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the data center. The fullest minute needs `overload` times all CPU time if every replica is active. Applications,
    rates and failures depend on `seed`."""

    applications: int = 400
    pes: int = 25
    racks: int = 25
    nodes: int = 40
    overload: float = 1.4
    seed: int = 1
    step_s: float = 10.0

    @property
    def machines(self) -> int:
        return self.racks * self.nodes


def read_profile(path: Path, day: str) -> Floats:
    """Return the requests in each minute of a day, from a CSV file (may be gzipped) with columns `period` and `count`.

    A period looks like 1998-06-30 21:05. Raises TraceError.
    """
    try:
        date.fromisoformat(day)
    except ValueError:
        raise TraceError(f"a profile's day must be a date such as 1998-06-30, got '{day}'") from None
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row.get("period") or "").startswith(day)]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"profile '{path}' cannot be read: {error}") from None
    counts = np.zeros(1440)
    for row in rows:
        try:
            at, count = datetime.fromisoformat(row["period"]), float(row["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"profile '{path}' needs a period such as {day} 21:05 and a count in each row: {error}") from None
        if not 0 <= count < np.inf:
            raise TraceError(f"profile '{path}' needs counts of at least 0, got {count:g} at {row['period']}")
        counts[60 * at.hour + at.minute] = count
    if not counts.any():
        raise TraceError(f"profile '{path}' has no requests on {day}; give a day that it covers, such as 1998-06-30")
    return counts


def generated_profile(rng: np.random.Generator) -> Floats:
    """Return a generated day that is calm at night and has an evening peak, with noise of a few per cent."""
    minute = np.arange(1440)
    swell = 1 + 0.8 * np.sin((minute - 540) / 1440 * 2 * np.pi)
    peak = 2.2 * np.exp(-(((minute - 1230) / 60) ** 2))
    return np.asarray(1000 * (swell + peak) * rng.lognormal(0, 0.05, 1440), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class DataCenter:
    """The data center: its applications as one descriptor, the placement of replicas, and the rates of the day.

    `application[i]` is the application of PE i. The day begins at minute `begins` of the profile, twelve hours before its busiest
    hour, and wraps around at midnight.
    """

    scale: Scale
    descriptor: Descriptor
    node_of: Ints
    application: Ints
    work: Floats  # [level, PE], CPU seconds a second
    tuples: Floats  # [level, PE] that come in, a second
    emitted: Floats  # [level, PE] that go out, a second
    trace: RateTrace
    begins: int

    def deployment(self, active: Flags) -> Deployment:
        rates = np.array([[c.rates[s] for s in self.descriptor.sources] for c in self.descriptor.input_configurations])
        return Deployment(self.descriptor, self.node_of, LEVELS, active, rates)

    @property
    def probability(self) -> Floats:
        return np.array([c.probability for c in self.descriptor.input_configurations])


def build(scale: Scale, profile: Floats) -> DataCenter:
    """Build the data center with random applications. If every replica is active, the fullest minute overloads the nodes."""
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
        sources[source] = DescriptorSource(
            rates=tuple(Rate(name=n, rate=float(peak_rates[a] * b), probability=p) for n, b, p in levels)
        )
        names = [f"app{a:03d}.pe{n:02d}" for n in range(scale.pes)]
        read: set[str] = set()
        for n, name in enumerate(names):
            tails = {source} if n == 0 else {names[int(t)] for t in rng.integers(max(0, n - 5), n, 1 + int(rng.random() < 0.5))}
            read |= tails
            inputs = {tail: Input(selectivity=rng.uniform(0.4, 1.0), cost=rng.uniform(0.5, 1.5)) for tail in sorted(tails)}
            pes[name] = Pe(inputs=inputs)
            application.append(a)
        sinks[f"sink{a:03d}"] = DescriptorSink(inputs=tuple(name for name in names if name not in read))
    nodes = {
        f"node{r:02d}-{h:02d}": DescriptorNode(cores=CORES, rack=f"rack{r:02d}")
        for r in range(scale.racks)
        for h in range(scale.nodes)
    }
    # Not validated: ten thousand PEs are valid by construction, and checking them takes long.
    descriptor = Descriptor.model_construct(
        application="data center",
        sources=sources,
        configurations=tuple(JointRate(rates=dict.fromkeys(sources, n), probability=p) for n, _, p in levels),
        pes=pes,
        sinks=sinks,
        nodes=nodes,
        replicas=2,
        placement=None,
        contract=PricingContract(),
    )
    return _scale_load(scale, descriptor, np.array(application), shape, peak_rates)


def _scale_load(scale: Scale, descriptor: Descriptor, application: Ints, shape: Floats, peak_rates: Floats) -> DataCenter:
    order = descriptor.topological_order
    place = {pe: n for n, pe in enumerate(descriptor.pes)}
    application = application[[place[pe] for pe in order]]
    rates = [expected_rates(descriptor, c) for c in descriptor.input_configurations]
    tuples = np.array([[sum(rate[i] for i in descriptor.pes[pe].inputs) for pe in order] for rate in rates])
    work = np.array([[sum(e.cost * rate[i] for i, e in descriptor.pes[pe].inputs.items()) for pe in order] for rate in rates])
    fits = _fitting(work[-1], application, cores=scale.overload * CORES * scale.machines / 2)
    tuples, work, peak_rates = tuples * fits[application], work * fits[application], peak_rates * fits
    factor = scale.overload * CORES * scale.machines / (2 * work[-1].sum())
    scaled = {
        name: Pe(inputs={i: Input(selectivity=e.selectivity, cost=e.cost * factor) for i, e in pe.inputs.items()})
        for name, pe in descriptor.pes.items()
    }
    sources = {
        name: DescriptorSource(rates=tuple(Rate(name=r.name, rate=r.rate * fit, probability=r.probability) for r in source.rates))
        for (name, source), fit in zip(descriptor.sources.items(), fits.tolist(), strict=True)
    }
    loaded = descriptor.model_copy(update={"pes": scaled, "sources": sources})
    node_of = _place(scale, work[-1] * factor)
    begins = (busiest_hour(shape) - BUSIEST_MINUTE) % len(shape)
    trace = RateTrace(tuple(descriptor.sources), np.roll(shape, -begins)[:, None] * peak_rates[None, :], MINUTE_S)
    emitted = np.array([[rate[pe] for pe in order] for rate in rates]) * fits[application]
    return DataCenter(scale, loaded, node_of, application, work * factor, tuples, emitted, trace, begins)


def busiest_hour(shape: Floats) -> int:
    """Return the minute at which the busiest hour of a day begins."""
    return int(np.argmax(np.convolve(shape, np.ones(60), "valid")))


def _fitting(work: Floats, application: Ints, *, cores: float) -> Floats:
    """Return a factor for each application's rate, so that no PE needs too much of a node when all PEs together need `cores`.

    If there are too few PEs for that, the heaviest PE of each application needs the same.
    """
    heaviest, total = np.zeros(int(application.max()) + 1), np.bincount(application, work)
    np.maximum.at(heaviest, application, work)
    most = max(HEAVIEST * CORES, cores / float((total / heaviest).sum())) / heaviest
    low, high = cores / float(total.sum()), float(most.max())
    for _ in range(100):  # what is cut from one application is available to the others
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(factor, most) @ total < cores else (low, factor)
    return np.minimum(1.0, most / high)


def _place(scale: Scale, work: Floats) -> Ints:
    """Place the heaviest PE first, each replica on the emptiest node, the second replica in another rack."""
    load = np.zeros((scale.racks, scale.nodes))
    node_of = np.zeros((len(work), 2), dtype=np.int64)
    for i in np.argsort(-work, kind="stable"):
        first = int(np.argmin(load))
        load.flat[first] += work[i]
        elsewhere = load.copy()
        elsewhere[first // scale.nodes] = np.inf
        second = int(np.argmin(elsewhere))
        load.flat[second] += work[i]
        node_of[i] = first, second
    return node_of


def failures(world: DataCenter, day: str) -> Schedule:
    """Return the random faults of a day: machines at their rate, and one rack or power unit in the busiest hour; none if calm."""
    if day == "calm":
        return Schedule()
    scale = world.scale
    rng = np.random.default_rng([scale.seed, 1 + DAYS.index(day)])
    nodes = list(world.descriptor.nodes)
    faults = [
        ScheduledFault(
            at_s=float(rng.uniform(0, DAY_S)),
            kind="crash",
            what="node",
            target=(nodes[int(rng.integers(len(nodes)))],),
            back_after_s=MACHINE_HOURS * 3600,
        )
        for _ in range(rng.poisson(YEARLY["machine"] * scale.machines / MACHINES / 365))
    ]
    at_s = (BUSIEST_MINUTE + float(rng.uniform(0, 60))) * MINUTE_S
    if day == "rack":
        count, hours = 1, float(rng.uniform(*RACK_HOURS))
    else:
        count, hours = max(1, round(float(rng.uniform(*PDU_SHARE)) * scale.racks)), PDU_HOURS
    racks = tuple(f"rack=rack{int(r):02d}" for r in sorted(rng.choice(scale.racks, count, replace=False)))
    faults.append(ScheduledFault(at_s=at_s, kind="crash", what="node", target=racks, back_after_s=hours * 3600))
    return Schedule(faults=tuple(faults))
