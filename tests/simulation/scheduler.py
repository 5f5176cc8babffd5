"""Runs actors in one thread. Each actor is a greenlet. It runs until it waits, or until the scheduler interrupts it.

Time is virtual: it passes only when no actor can run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import greenlet

from holdfast.errors import LogError

START_S = 1_000_000.0
OPERATIONS = 12
"""How many operations an actor does on average before another one may run."""
POLL_LIMIT_S = 0.06
"""A wait that is not longer than this is a poll: the actor then sleeps until something that it watches changes."""


class Dropped(BaseException):
    """Ends an actor whose process was killed. From then on, nothing that the actor does has any effect."""


class StuckError(Exception):
    """An actor runs for ever without waiting."""


@dataclass(slots=True)
class Trap:
    """A fault that waits for its process to do `operations` more operations. See `faults.py` for the kinds."""

    kind: str
    operations: int
    actor: str | None = None
    for_s: float = 0.0
    fire: Callable[[], None] = lambda: None


@dataclass(eq=False, slots=True)
class Machine:
    """A computer: its clock, and what its processes can use."""

    name: str
    offset_s: float = 0.0
    full_until_s: float = 0.0
    cut_until_s: float = 0.0
    up: bool = True


@dataclass(eq=False, slots=True)
class Process:
    """A process on a machine. It can be killed or stopped (SIGSTOP) as a whole."""

    name: str
    machine: Machine
    alive: bool = True
    paused_until_s: float = 0.0
    actors: list[Actor] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Actor:
    """A thread of a process. `poll_s` is how long it sleeps at most when it polls, and `ready` whether it waits for its turn."""

    name: str
    process: Process
    greenlet: Any = None
    poll_s: float = 1.0
    dead: bool = False
    done: bool = False
    ready: bool = False
    waits: bool = False
    turn: int = 0
    exception: type[BaseException] | None = None
    operations: int = 0


class Scheduler:
    """Chooses which actor runs next. `seed` determines every choice."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = START_S
        self.current: Actor | None = None
        self._hub = greenlet.getcurrent()
        self._ready: list[Actor] = []
        self._timers: list[tuple[float, int, Any, int]] = []
        self._count = 0
        self._countdown = 1
        self._after_turn: list[Callable[[], None]] = []
        self._watchers: dict[tuple[str, str], list[Actor]] = {}
        self.delays = True
        self.operations = 0
        self.operation_limit = 400_000

    # What the scheduler's owner calls, outside of actors.

    def spawn(self, name: str, run: Callable[[], None], process: Process, *, poll_s: float = 1.0) -> Actor:
        """Start an actor in a process."""
        actor = Actor(name, process, poll_s=poll_s)

        def body() -> None:
            try:
                run()
            except Dropped:
                pass
            finally:
                actor.done = True

        actor.greenlet = greenlet.greenlet(body, self._hub)
        process.actors.append(actor)
        self._make_ready(actor)
        return actor

    def call_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Call a function outside of actors, at a virtual time."""
        self._count += 1
        heapq.heappush(self._timers, (at_s, self._count, call, 0))

    def run(self, until_s: float, *, done: Callable[[], bool]) -> None:
        """Run until a virtual time, or until `done` returns True; it is asked whenever time passes."""
        ready, timers, choose = self._ready, self._timers, self.random.random
        while True:
            while ready:
                index = int(choose() * len(ready))
                actor = ready[index]
                ready[index] = ready[-1]
                ready.pop()
                actor.ready = False
                if actor.done or actor.dead:
                    continue
                if actor.process.paused_until_s > self.now_s:
                    self._wake_at(actor, actor.process.paused_until_s)
                    continue
                self._switch_to(actor)
            if not timers or timers[0][0] > until_s:
                self.now_s = until_s
                return
            at_s, _, target, turn = heapq.heappop(timers)
            if at_s > self.now_s:
                self.now_s = at_s
                if done():
                    return
            if not isinstance(target, Actor):
                target()
            elif target.turn == turn and not target.ready:
                self._make_ready(target)

    def kill(self, process: Process) -> None:
        """Kill a process: none of its code runs any more. Works inside and outside of actors."""
        process.alive = False
        process.traps.clear()
        actors, process.actors = process.actors, []
        for actor in actors:
            actor.dead = True
        self._outside(lambda: [self._unwind(actor) for actor in actors])

    def interrupt(self, actor: Actor, exception: type[BaseException]) -> None:
        """Raise an exception in an actor as soon as it runs."""
        if not actor.done and not actor.dead and actor is not self.current:
            actor.exception = exception
            if not actor.ready:
                self._make_ready(actor)

    def wake(self, actor: Actor) -> None:
        """Let an actor that waits continue."""
        if actor.waits and not actor.ready and not actor.done:
            self._make_ready(actor)

    def watch(self, actor: Actor, folders: list[tuple[str, str]]) -> None:
        """Wake an actor that polls whenever an object is stored in one of these folders of a log."""
        for folder in folders:
            self._watchers.setdefault(folder, []).append(actor)

    def changed(self, log: str, folder: str) -> None:
        """Wake the actors that watch a folder."""
        for actor in self._watchers.get((log, folder), ()):
            self.wake(actor)

    # What actors call.

    def step(self, *, writes: bool = False, log: bool = True) -> Trap | None:
        """Let the scheduler act before an operation of the current actor. Return a fault to be injected after it, if any."""
        actor = self.current
        if actor is None:
            return None
        if actor.dead:
            raise Dropped
        self.operations += 1
        self._countdown -= 1
        if self._countdown <= 0:
            self._interrupt(actor)
        process = actor.process
        machine = process.machine
        if not log:
            return self._spring(actor, process, writes=writes, log=False) if process.traps else None
        if machine.cut_until_s > self.now_s:
            raise LogError("the log cannot be reached (simulated)")
        if writes and machine.full_until_s > self.now_s:
            raise LogError("the log cannot be written: no space left on device (simulated)")
        return self._spring(actor, process, writes=writes) if process.traps else None

    def finish(self, trap: Trap) -> None:
        """Inject a fault after the operation."""
        if trap.kind == "lose":
            raise LogError("the answer of the log was lost (simulated)")
        if trap.kind == "pause":
            self.pause(trap.for_s)
        elif trap.kind != "repeat":
            self._crash(trap)

    def park(self, timeout_s: float) -> None:
        """Let the current actor wait. A poll also ends when something changes that the actor watches."""
        actor = self.current
        assert actor is not None
        if actor.dead:
            raise Dropped
        if timeout_s <= POLL_LIMIT_S:
            timeout_s = actor.poll_s
        self._wake_at(actor, self.now_s + timeout_s)
        actor.waits = True
        self._leave(actor)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the current actor. Longer sleeps do not end early."""
        if seconds <= POLL_LIMIT_S:
            self.park(seconds)
            return
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.park(max(end_s - self.now_s, POLL_LIMIT_S * 1.01))

    def pause(self, for_s: float) -> None:
        """Stop the process of the current actor for a time."""
        actor = self.current
        assert actor is not None
        actor.process.paused_until_s = max(actor.process.paused_until_s, self.now_s + for_s)
        self._make_ready(actor)
        self._leave(actor)

    def _interrupt(self, actor: Actor) -> None:
        """Let other actors run, and perhaps delay this one."""
        draw = self.random.random()
        self._countdown = 1 + int(self.random.random() * 2 * OPERATIONS)
        if self.operations > self.operation_limit:
            raise StuckError(f"{actor.name} and others did {self.operations} operations until {self.now_s - START_S:.1f} s")
        if self.delays and draw < 0.1:
            self._wake_at(actor, self.now_s + 10 ** (self.random.random() * 2.5 - 2.5))
        else:
            self._make_ready(actor)
        self._leave(actor)

    def _spring(self, actor: Actor, process: Process, *, writes: bool, log: bool = True) -> Trap | None:
        for trap in process.traps:
            if trap.actor is not None and trap.actor != actor.name:
                continue
            if trap.kind in ("operator", "writer") or (trap.kind in ("lose", "repeat") and not writes):
                continue
            if not log and trap.kind in ("fail", "lose", "repeat"):
                continue
            trap.operations -= 1
            if trap.operations > 0:
                continue
            process.traps.remove(trap)
            if trap.kind == "fail":
                raise LogError("the log cannot be used (simulated)")
            if trap.kind == "crash-before":
                self._crash(trap)
            if trap.kind == "pause-before":
                self.pause(trap.for_s)
                return None
            return trap
        return None

    def take_trap(self, kind: str) -> bool:
        """Return whether a fault of a kind that the actor itself injects is due now."""
        actor = self.current
        assert actor is not None
        for trap in actor.process.traps:
            if trap.kind == kind and trap.actor in (None, actor.name):
                trap.operations -= 1
                if trap.operations <= 0:
                    actor.process.traps.remove(trap)
                return True
        return False

    def _crash(self, trap: Trap) -> None:
        actor = self.current
        assert actor is not None
        trap.fire()
        if actor.dead:
            raise Dropped
        if actor.exception is not None:
            exception, actor.exception = actor.exception, None
            raise exception

    def _leave(self, actor: Actor) -> None:
        self._hub.switch()
        if actor.exception is not None:
            exception, actor.exception = actor.exception, None
            raise exception

    def _switch_to(self, actor: Actor) -> None:
        actor.turn += 1
        actor.waits = False
        self.current = actor
        try:
            actor.greenlet.switch()
        finally:
            self.current = None
        if self._after_turn:
            calls, self._after_turn = self._after_turn, []
            for call in calls:
                call()

    def _unwind(self, actor: Actor) -> None:
        if not actor.done and actor.greenlet:
            self.current = actor
            try:
                actor.greenlet.throw(Dropped)
            finally:
                self.current = None
        actor.done = True

    def _outside(self, call: Callable[[], Any]) -> None:
        if self.current is None:
            call()
        else:
            self._after_turn.append(call)

    def _make_ready(self, actor: Actor) -> None:
        actor.ready = True
        self._ready.append(actor)

    def _wake_at(self, actor: Actor, at_s: float) -> None:
        self._count += 1
        heapq.heappush(self._timers, (at_s, self._count, actor, actor.turn))
