"""What is done about a failed replica. Pure: a situation in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.documents.job import Policy

STEADY_S = 30.0
"""A replica that ran for so long has recovered from the failure before: the next one is the first in a row again."""


@dataclass(frozen=True, slots=True)
class Situation:
    """How things stand with a failed replica: its failures in a row with this one, how many others of its task live, are about
    to or have finished, whether its own node can take it again, and whether another one has room for it."""

    failures: int
    living: int
    here: bool
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after so many seconds."""

    after_s: float
    where: Literal["here", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Wait:
    """It should be started again, and no node can take it now."""

    why: str


@dataclass(frozen=True, slots=True)
class LeaveDead:
    """It stays dead as long as others of its task live."""

    why: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """It is not started again; `cancel`: and the job ends."""

    cancel: bool
    why: str


Decision: TypeAlias = Restart | Wait | LeaveDead | Abandon


def decide(policy: Policy, at: Situation) -> Decision:
    """What a policy says in a situation.

    >>> decide(Policy(restart="elsewhere", backoff_s=0.5), Situation(failures=3, living=0, here=True, elsewhere=True))
    Restart(after_s=2.0, where='elsewhere')
    >>> decide(Policy(restart="missing"), Situation(failures=1, living=1, here=True, elsewhere=True))
    LeaveDead(why='another replica of it lives')
    >>> decide(Policy(give_up_after=2, then="cancel"), Situation(failures=2, living=0, here=True, elsewhere=True))
    Abandon(cancel=True, why='it failed 2 times in a row')
    """
    if policy.restart == "never":
        if at.living:
            return LeaveDead("its policy never restarts it, and another replica of it lives")
        return Abandon(policy.then == "cancel", "its policy never restarts it")
    if at.failures >= policy.give_up_after:
        times = "once" if at.failures == 1 else f"{at.failures} times in a row"
        return Abandon(policy.then == "cancel" and not at.living, f"it failed {times}")
    if policy.restart == "missing" and at.living:
        return LeaveDead("another replica of it lives")
    wait_s = backoff_s(policy, at.failures)
    if policy.restart in ("elsewhere", "missing") and at.elsewhere:
        return Restart(wait_s, "elsewhere")
    if at.here:
        return Restart(wait_s, "here")
    return Wait("its node is not up, or is drained" if policy.restart == "here" else "no node has room for it")


def leaves_dead(policy: Policy) -> bool:
    """Whether a policy leaves a failed replica dead while others of its task live.

    >>> [leaves_dead(Policy(restart=restart)) for restart in ("here", "elsewhere", "missing", "never")]
    [False, False, True, True]
    """
    return policy.restart in ("missing", "never")


def backoff_s(policy: Policy, failures: int) -> float:
    """How long the n-th failure in a row waits.

    >>> [backoff_s(Policy(backoff_s=1, backoff_max_s=5), n) for n in (1, 2, 3, 4, 99)]
    [1.0, 2.0, 4.0, 5.0, 5.0]
    """
    if failures > 60:
        return policy.backoff_max_s
    return min(policy.backoff_s * float(2 ** max(0, failures - 1)), policy.backoff_max_s)
