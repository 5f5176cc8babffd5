"""Recommend which operators to protect: assess, plan, and assess again with each plan in place.

Read loop.py first: it runs the campaigns, makes candidate plans (candidates.py) for a budget (budget.py) and chooses one
(advice.py). kill_check.py verifies the chosen plan by a run with real kills.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.advise.budget import Budget, Prices
    from holdfast.advise.candidates import candidate_plans
    from holdfast.advise.losses import Loss, is_larger_loss, losses_of, single_losses
    from holdfast.advise.protection_units import whole_units
else:
    __getattr__ = lazy_exports(__name__)
