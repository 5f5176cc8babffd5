"""Decide whether a failed replica restarts, waits, stays dead or is abandoned. Pure: from a situation to a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.documents.job import Policy

STEADY_S = 30.0
"""After running for this long, or as soon as it gets further than before, a replica counts as recovered: its next failure is the
first in a row."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation of a dead replica: its failures in a row including this one, how many peers live, will be restarted or have
    finished, whether its own node accepts it again (`here`), and whether another node has room for it (`elsewhere`).

    `losses` counts the deaths of its node or PE host in a row. They delay the restart like failures, but the replica is not to
    blame, so they never make it abandoned.
    """

    failures: int
    living_peers: int
    here: bool
    elsewhere: bool
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart it after `after_s` seconds."""

    after_s: float
    where: Literal["here", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Wait:
    """It should restart, but no node has room for it now."""

    cause: str


@dataclass(frozen=True, slots=True)
class LeaveDead:
    """It stays dead while another replica of its task lives."""

    cause: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """It is never restarted. `cancel`: the job ends, too."""

    cancel: bool
    cause: str


Decision: TypeAlias = Restart | Wait | LeaveDead | Abandon


def decide(policy: Policy, at: Situation) -> Decision:
    """Return what a policy decides in a situation.

    >>> decide(Policy(restart="elsewhere", backoff_s=0.5), Situation(failures=3, living_peers=0, here=True, elsewhere=True))
    Restart(after_s=2.0, where='elsewhere')
    >>> decide(Policy(restart="missing"), Situation(failures=1, living_peers=1, here=True, elsewhere=True))
    LeaveDead(cause='another replica of its task lives')
    >>> decide(Policy(give_up_after=2, then="cancel"), Situation(failures=2, living_peers=0, here=True, elsewhere=True))
    Abandon(cancel=True, cause='it failed 2 times in a row')
    >>> decide(Policy(give_up_after=2), Situation(failures=0, living_peers=0, here=True, elsewhere=True, losses=99))
    Restart(after_s=60.0, where='elsewhere')
    """
    if policy.restart == "never":
        if at.living_peers:
            return LeaveDead("its policy never restarts it, and another replica of its task lives")
        return Abandon(policy.then == "cancel", "its policy never restarts it")
    if at.failures >= policy.give_up_after:
        times = "once" if at.failures == 1 else f"{at.failures} times in a row"
        return Abandon(policy.then == "cancel" and not at.living_peers, f"it failed {times}")
    if policy.restart == "missing" and at.living_peers:
        return LeaveDead("another replica of its task lives")
    wait_s = backoff_s(policy, at.failures + at.losses)
    if policy.restart in ("elsewhere", "missing") and at.elsewhere:
        return Restart(wait_s, "elsewhere")
    if at.here:
        return Restart(wait_s, "here")
    return Wait("its node is not up, or is drained" if policy.restart == "here" else "no node has room for it")


def leaves_dead(policy: Policy) -> bool:
    """Return whether a policy leaves a failed replica dead while another replica of its task lives.

    >>> [leaves_dead(Policy(restart=restart)) for restart in ("here", "elsewhere", "missing", "never")]
    [False, False, True, True]
    """
    return policy.restart in ("missing", "never")


def backoff_s(policy: Policy, failures: int) -> float:
    """Return the delay before a restart after the n-th failure in a row.

    >>> [backoff_s(Policy(backoff_s=1, backoff_max_s=5), n) for n in (1, 2, 3, 4, 99)]
    [1.0, 2.0, 4.0, 5.0, 5.0]
    """
    if failures > 60:
        return policy.backoff_max_s
    return min(policy.backoff_s * float(2 ** max(0, failures - 1)), policy.backoff_max_s)
