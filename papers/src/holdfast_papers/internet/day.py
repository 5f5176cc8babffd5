"""Simulates one variant on one day of the data center; measures its cost and loss."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast_papers.arrays import Flags
from holdfast_papers.internet.data_center import CORES, MACHINES, MINUTE_S, YEARLY, DataCenter, Scale, build, failures
from holdfast_papers.internet.plans import VARIANTS, strategy
from holdfast_papers.simulate import Control, FailureHandling, SimulationSettings, simulate

RESTART_S = 30.0


def settings(world: DataCenter, variant: str) -> SimulationSettings:
    """Return the settings: beats of 10 s, queues of a minute; PPA and the combined plan take checkpoints every five minutes.

    There are no spare nodes: a PE of a lost node continues at its second location, in another rack. PPA restarts it there from a
    checkpoint within half a minute; the combined plan has an idle replica there.
    """
    passive = variant in ("PPA", "combined")
    # A tuple of state costs a tenth of processing a tuple of mean cost.
    state_tuple_s = 0.1 * float(world.work.sum() / world.tuples.sum()) if passive else 0.0
    handling = FailureHandling(
        detect_s=10.0,
        restart_s=RESTART_S,
        spares=False,
        scheme="checkpoint" if passive else "none",
        checkpoint_s=300.0,
        window_s=60.0,
        checkpoint_tuple_s=state_tuple_s,
        load_tuple_s=state_tuple_s,
    )
    control = Control(
        every_s=60.0,
        switch_s=10.0,
        resync_s=10.0,
        replace_dead=passive,
        replace_s=RESTART_S if variant == "PPA" else 0.0,
    )
    return SimulationSettings(
        step_s=world.scale.step_s, queue_s=60.0, interval_s=600.0, drain_s=600.0, control=control, failure_handling=handling
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The task to plan a variant."""

    scale: Scale
    variant: str
    profile: tuple[float, ...]

    @property
    def key(self) -> str:
        return f"plan/{self.variant}"


def plan_record(task: Plan) -> dict[str, Any]:
    """Return the record of a variant's plan: its active flags in hexadecimal, and the `seconds` and `rss_mib` of planning."""
    began = time.perf_counter()
    active = strategy(build(task.scale, np.array(task.profile)), task.variant)
    digits = np.packbits(active).tobytes().hex()
    return {"key": task.key, "shape": list(active.shape), "active": digits, **_spent(began)}


@dataclass(frozen=True, slots=True)
class Task:
    """The task to simulate a variant on one day, with the record of its plan."""

    plan: Plan
    day: str
    plan_record: Mapping[str, Any]

    @property
    def key(self) -> str:
        return day_key(self.day, self.plan.variant)

    @property
    def active(self) -> Flags:
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(self.plan_record["active"]), dtype=np.uint8))
        return bits[: int(np.prod(self.plan_record["shape"]))].reshape(self.plan_record["shape"]).astype(np.bool_)


def day_key(day: str, variant: str) -> str:
    return f"{day} day/{variant}"


def run_task(task: Plan | Task) -> dict[str, Any]:
    """Run a task and return its record."""
    return plan_record(task) if isinstance(task, Plan) else evaluate(task)


def evaluate(task: Task) -> dict[str, Any]:
    """Return the record of a variant on one simulated day: its cost and loss, and the `seconds` and `rss_mib` of the simulation."""
    began = time.perf_counter()
    variant = task.plan.variant
    world = build(task.plan.scale, np.array(task.plan.profile))
    deployment = world.deployment(task.active)
    faults = failures(world, task.day)
    simulation_settings = settings(world, variant)
    outcome = simulate(deployment, world.trace, schedule=faults, settings=simulation_settings)
    ideal = outcome.deployment.ideal(outcome.source_tuples).sum()
    every_s = outcome.interval_s
    latencies = [recovery.latency_s for recovery in outcome.recoveries()]
    return {
        "key": task.key,
        "day": task.day,
        "variant": variant,
        "cpu_s": float(outcome.cpu_s.sum()),
        "lost": max(0.0, 1 - float(outcome.ledger.processed.sum()) / float(ideal)),
        "waiting_s": float(outcome.ledger.waited.sum() * simulation_settings.step_s / ideal),
        "begins_h": world.begins * MINUTE_S / 3600,
        "every_s": every_s,
        "output": (outcome.output_tuples / every_s).tolist(),
        "busy": (outcome.ledger.cpu.sum(axis=1) / (every_s * CORES * world.scale.machines)).tolist(),
        "recoveries": len(latencies),
        "latency_s": float(np.mean(latencies)) if latencies else None,
        "faults": [fault.model_dump(mode="json") for fault in faults.faults],
        **_spent(began),
    }


def _spent(began: float) -> dict[str, float]:
    return {"seconds": time.perf_counter() - began, "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def yearly(records: Mapping[str, Mapping[str, Any]], scale: Scale) -> dict[str, dict[str, float]]:
    """Return each variant's CPU time on a calm day, and the tuples that it loses in a year, in days of all tuples.

    `calm_days` are lost without failures, for lack of CPU time. Failures of racks and PDUs add `rack_days` and `pdu_days`.
    """
    calm = {variant: records[day_key("calm", variant)] for variant in VARIANTS}
    times = {day: YEARLY[day] * scale.machines / MACHINES for day in ("rack", "pdu")}
    return {
        variant: {
            "cpu_s": calm[variant]["cpu_s"],
            "calm_days": 365 * calm[variant]["lost"],
            **{f"{d}_days": n * (records[day_key(d, variant)]["lost"] - calm[variant]["lost"]) for d, n in times.items()},
        }
        for variant in VARIANTS
    }
