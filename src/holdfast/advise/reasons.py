"""Why a plan protects a source or PE, or leaves it: what the plan went by first, then what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.advise.candidates import NAMES
from holdfast.advise.losses import exceeds

if TYPE_CHECKING:
    from holdfast.advise.advice import Advice, WeighedUnit


def reason_of(advice: Advice, name: str) -> str:
    """What the plan does about a source or PE, why, and what was measured of it."""
    protected = name in advice.chosen.candidate.protected
    why = _protected(advice, name) if protected else _left(advice, name)
    return f"{decided(why, protected=protected)} Measured: {advice.because[name]}."


def decided(because: str, *, protected: bool) -> str:
    """What a plan does about a source or PE, and because of what."""
    return f"{'Protect it' if protected else 'Leave it without a replica'}: {because}."


def percent(share: float, *, digits: int = 3) -> str:
    """A share with so many significant digits, however small it is.

    >>> percent(0.28), percent(0.042345), percent(0.000001)
    ('28%', '4.23%', '0.0001%')
    """
    return f"{100 * share:.{digits}g}%"


def _protected(advice: Advice, name: str) -> str:
    """What its loss costs, and what its replica takes."""
    without, with_one = advice.single[name].mean, advice.failing_over[name].mean
    return (
        f"on average over the offsets its failure costs {without:,.4g} without a replica and {with_one:,.4g} with one; "
        f"{_takes(advice, name)}"
    )


def _left(advice: Advice, name: str) -> str:
    """The first of these that is so: its failure does not show, what was asked for is kept, it does not fit, a plan that has it
    lost more."""
    if not any(advice.single[name].by_offset):
        return "no failure of it alone left a mark on the output"
    if advice.asked is not None:
        return f"{advice.asked} is kept without it, and {_takes(advice, name)}"
    fits = advice.budget.affords((*advice.chosen.candidate.protected, name), advice.prices)
    rivals = [_rival(advice, each) for each in advice.weighed if name in each.candidate.protected]
    if fits:
        return next(iter(rivals), f"{_takes(advice, name)}, which would fit, but none of the plans that were tried has it")
    return "; ".join([f"{_takes(advice, name)}, and {_room(advice)}", *rivals[:1]])


def _takes(advice: Advice, name: str) -> str:
    tasks, share = advice.prices.tasks[name], percent(advice.prices.share([name]))
    return f"its {'replica takes' if tasks == 1 else f'{tasks} replicas take'} {share} of full replication's CPU"


def _room(advice: Advice) -> str:
    """What the plan leaves of the budget."""
    budget, held = advice.budget, advice.chosen.candidate.protected
    if budget.share is not None:
        left = max(0.0, budget.share - advice.prices.share(held))
        return f"of the budget of {budget} only {percent(left)} was left beside the others"
    whole = budget.replicas or 0
    over = max(0, whole - advice.replicas)
    left_over = f"{over or 'none'} {'were' if over > 1 else 'was'} left"
    return f"of the budget of {counted(whole)} {left_over} beside the others"


def _rival(advice: Advice, rival: WeighedUnit) -> str:
    """Why a plan that was weighed is not the one chosen."""
    chosen, plan = advice.chosen, f"the plan by {NAMES[rival.candidate.objective]}, which has it,"
    if exceeds(rival.together.mean, chosen.together.mean):
        return f"{plan} lost more when all others failed at once ({_against(rival.together.mean, chosen.together.mean)})"
    if exceeds(rival.single.mean, chosen.single.mean):
        return f"{plan} lost more when one failed ({_against(rival.single.mean, chosen.single.mean)} on average)"
    return f"{plan} lost no less"


def _against(*figures: float) -> str:
    return " against ".join(f"{figure:,.4g}" for figure in figures)


def counted(count: int) -> str:
    """So many replicas, in words."""
    return "1 replica" if count == 1 else f"{count} replicas"
