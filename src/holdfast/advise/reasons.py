"""Explain why a plan protects a unit or does not: first the plan's reason, then the measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.advise.candidates import OBJECTIVE_NAMES
from holdfast.advise.losses import is_larger_loss

if TYPE_CHECKING:
    from holdfast.advise.advice import Advice, MeasuredPlan


def reason_of(advice: Advice, name: str) -> str:
    """Return whether the plan protects a unit, why, and what was measured for it."""
    protected = name in advice.chosen.candidate.protected
    why = _protected(advice, name) if protected else _unprotected(advice, name)
    return f"{decided(why, protected=protected)} Measured: {advice.because[name]}."


def decided(because: str, *, protected: bool) -> str:
    """Return whether a plan protects a unit, and the reason."""
    return f"{'Protect it' if protected else 'Leave it without a replica'}: {because}."


def percent(share: float, *, digits: int = 3) -> str:
    """Return a share as a percentage with this many significant digits.

    >>> percent(0.28), percent(0.042345), percent(0.000001)
    ('28%', '4.23%', '0.0001%')
    """
    return f"{100 * share:.{digits}g}%"


def _protected(advice: Advice, name: str) -> str:
    """Return the cost of the unit's failure without and with a replica, and the price of the replica."""
    without, with_one = advice.single[name].mean, advice.failing_over[name].mean
    return f"its failure costs {without:,.3g} s of output without a replica and {with_one:,.3g} s with one; {_takes(advice, name)}"


def _unprotected(advice: Advice, name: str) -> str:
    """Return the first reason that applies: no effect on the output, goal reached without it, over budget, or a worse plan."""
    if not any(advice.single[name].by_offset):
        return "its failure alone does not change the output"
    if name in advice.prices.unreplicable:
        return "its reader can have only one replica; it is restarted on another node when it fails"
    if advice.goal is not None:
        return f"{advice.goal} is reached without it, and {_takes(advice, name)}"
    fits = advice.budget.affords((*advice.chosen.candidate.protected, name), advice.prices)
    rivals = [_rival(advice, each) for each in advice.plans if name in each.candidate.protected]
    if fits:
        return next(iter(rivals), f"{_takes(advice, name)}, which would fit, but no plan that was tried includes it")
    return "; ".join([f"{_takes(advice, name)}, and {_room(advice)}", *rivals[:1]])


def _takes(advice: Advice, name: str) -> str:
    tasks, share = advice.prices.tasks[name], percent(advice.prices.share([name]))
    return f"its {'replica takes' if tasks == 1 else f'{tasks} replicas take'} {share} of full replication's CPU"


def _room(advice: Advice) -> str:
    """Return what remains of the budget."""
    budget, protected = advice.budget, advice.chosen.candidate.protected
    if budget.share is not None:
        remaining = max(0.0, budget.share - advice.prices.share(protected))
        return f"only {percent(remaining)} of the budget of {budget} remains"
    whole = budget.replicas or 0
    over = max(0, whole - advice.replicas)
    return f"{over or 'none'} of the budget of {counted(whole)} {'remain' if over > 1 else 'remains'}"


def _rival(advice: Advice, rival: MeasuredPlan) -> str:
    """Return why another plan was not chosen."""
    chosen, plan = advice.chosen, f"the plan by {OBJECTIVE_NAMES[rival.candidate.objective]}, which includes it,"
    if is_larger_loss(rival.together.mean, chosen.together.mean):
        return f"{plan} lost more when all others failed at once ({_against(rival.together.mean, chosen.together.mean)})"
    if is_larger_loss(rival.single.mean, chosen.single.mean):
        return f"{plan} lost more when one failed ({_against(rival.single.mean, chosen.single.mean)} on average)"
    return f"{plan} is no better"


def _against(*figures: float) -> str:
    return " against ".join(f"{figure:,.3g} s" for figure in figures)


def counted(count: int) -> str:
    """Return a number of replicas as text."""
    return "1 replica" if count == 1 else f"{count} replicas"
