"""The faults of a schedule, and how each is injected.

A fault names what it hits and when: the first operation, or one of the next few, that its target does after a virtual time. A fault
therefore keeps its meaning when other faults are removed from a schedule.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .scheduler import START_S, Process, Trap

if TYPE_CHECKING:
    from .world import World

LAST_FAULT_S = 22.0
RETRY_S = 0.5
RETRIES = 10

KINDS = {
    "crash-replica": 6,
    "kill-host": 6,
    "crash-nodes": 3,
    "pause-host": 4,
    "pause-node": 2,
    "pause-orchestrator": 1,
    "kill-orchestrator": 4,
    "lose-answer": 4,
    "repeat-create": 2,
    "fail-operation": 2,
    "full-disk": 2,
    "cut-log": 2,
    "cut-off-node": 2,
    "jump-clock": 2,
    "fail-operator": 2,
    "fail-writer": 2,
    "pause-writer": 2,
    "hang-replica": 1,
}
"""The kinds of faults, and how often each is drawn."""


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, the virtual second, the target, after how many of its operations, and for how long."""

    kind: str
    at_s: float
    target: str
    operations: int = 0
    for_s: float = 0.0


def draw_faults(rng: random.Random, *, nodes: list[str], replicas: list[str], count: int) -> tuple[Fault, ...]:
    """Return random faults in the order of time."""
    kinds, weights = list(KINDS), list(KINDS.values())
    faults = []
    around_s = rng.random() * LAST_FAULT_S
    for _ in range(count):
        kind = rng.choices(kinds, weights)[0]
        if rng.random() < 0.4:  # faults that come together break more than single ones
            at_s = around_s + rng.random() * 3
        else:
            at_s = around_s = rng.random() * LAST_FAULT_S
        if kind in ("crash-replica", "fail-operator", "fail-writer", "pause-writer", "hang-replica"):
            target = rng.choice(replicas)
        elif kind in ("kill-orchestrator", "pause-orchestrator"):
            target = "orchestrator"
        elif kind == "crash-nodes":
            target = ",".join(sorted(rng.sample(nodes, rng.randint(1, len(nodes)))))
        else:
            target = rng.choice([*nodes, "orchestrator"] if kind in ("full-disk", "cut-log", "jump-clock") else nodes)
        for_s = round(10 ** (rng.random() * 2.3 - 1), 2)
        if kind == "jump-clock":
            for_s = round(rng.choice([-1, 1]) * for_s, 2)
        if kind in ("pause-host", "pause-writer"):
            for_s = round(for_s * 1.5, 2)
        if kind in ("crash-nodes", "kill-orchestrator") and rng.random() < 0.1:
            for_s = 60.0
        faults.append(Fault(kind, round(at_s, 2), target, rng.choice([1, 1, 2, 3, 5, 8, 13, 21, 34]), for_s))
    if rng.random() < 0.08:
        faults.append(Fault("lose-power", round(rng.random() * LAST_FAULT_S, 2), "everything", for_s=round(rng.random() * 3, 2)))
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def failures(faults: tuple[Fault, ...]) -> int:
    """Return how many failures a replica can have by its own fault."""
    return sum(fault.kind in ("crash-replica", "hang-replica", "pause-host", "pause-node", "pause-writer") for fault in faults)


def end_s(faults: tuple[Fault, ...]) -> float:
    """Return the virtual second by which all faults are over."""
    return max((fault.at_s + RETRY_S * RETRIES + max(fault.for_s, 0.0) for fault in faults), default=0.0)


def arm(world: World, fault: Fault) -> None:
    """Let a fault happen at its time."""
    world.scheduler.call_at(START_S + fault.at_s, lambda: _begin(world, fault, RETRIES))


def _begin(world: World, fault: Fault, retries: int) -> None:
    if not _inject(world, fault) and retries:
        world.scheduler.call_at(world.scheduler.now_s + RETRY_S, lambda: _begin(world, fault, retries - 1))


def _inject(world: World, fault: Fault) -> bool:
    """Inject a fault, or set a trap for it. Return False if its target is not there now."""
    now_s, kind = world.scheduler.now_s, fault.kind
    moment = "before" if fault.operations % 2 else "after"
    if kind in ("crash-replica", "fail-operator", "fail-writer", "pause-writer", "hang-replica"):
        return _inject_in_replica(world, fault, moment)
    if kind == "lose-power":
        world.lose_power(fault.for_s)
        return True
    if kind in ("kill-orchestrator", "pause-orchestrator"):
        orchestrator = world.orchestrator
        if orchestrator is None:
            return False
        if kind == "pause-orchestrator":
            orchestrator.process.traps.append(Trap(_pause(moment), fault.operations, for_s=fault.for_s))
        else:
            orchestrator.process.traps.append(
                Trap(f"crash-{moment}", fault.operations, fire=lambda: _kill_orchestrator(world, fault))
            )
        return True
    if kind in ("full-disk", "cut-log", "jump-clock"):
        machines = {node.name: node.machine for node in world.nodes} | {"orchestrator": world.orchestrator_machine}
        machine = machines[fault.target]
        if kind == "full-disk":
            machine.full_until_s = max(machine.full_until_s, now_s + fault.for_s)
        elif kind == "cut-log":
            machine.cut_until_s = max(machine.cut_until_s, now_s + fault.for_s)
        else:
            machine.offset_s += fault.for_s
        return True
    nodes = [node for node in world.nodes if node.name in fault.target.split(",")]
    if kind == "crash-nodes":
        for node in nodes:
            node.crash()
            world.scheduler.call_at(now_s + fault.for_s, node.boot)
        return True
    (node,) = nodes
    if kind == "cut-off-node":
        node.cut_off_until_s = max(node.cut_off_until_s, now_s + fault.for_s)
        return True
    if node.host is None:
        return False
    process = node.host.process
    if kind == "pause-node":
        node.paused_until_s = max(node.paused_until_s, now_s + fault.for_s)
        process.paused_until_s = max(process.paused_until_s, now_s + fault.for_s)
    elif kind == "kill-host":
        process.traps.append(Trap(f"crash-{moment}", fault.operations, fire=lambda: world.scheduler.kill(process)))
    else:
        trap = {"pause-host": _pause(moment), "lose-answer": "lose", "repeat-create": "repeat", "fail-operation": "fail"}[kind]
        process.traps.append(Trap(trap, fault.operations, for_s=fault.for_s))
    return True


def _inject_in_replica(world: World, fault: Fault, moment: str) -> bool:
    for node in world.nodes:
        for key, loop in node.host.loops.items() if node.host is not None else ():
            if not key.endswith(f":{fault.target}") or loop.state in ("failed", "finished"):
                continue
            process: Process = node.host.process  # type: ignore[union-attr]
            if fault.kind == "crash-replica":
                process.traps.append(Trap(f"crash-{moment}", fault.operations, actor=key, fire=loop.kill))
            elif fault.kind == "hang-replica":
                loop.stall(1e6)
            elif fault.kind == "pause-writer":
                process.traps.append(Trap("pause-before", fault.operations, actor=key, for_s=fault.for_s))
            else:
                kind = "operator" if fault.kind == "fail-operator" else "writer"
                process.traps.append(Trap(kind, 1, actor=key))
            return True
    return False


def _pause(moment: str) -> str:
    return "pause-before" if moment == "before" else "pause"


def _kill_orchestrator(world: World, fault: Fault) -> None:
    world.kill_orchestrator()
    world.scheduler.call_at(world.scheduler.now_s + fault.for_s, world.restart_orchestrator)
