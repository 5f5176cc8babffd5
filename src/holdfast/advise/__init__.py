"""The loop closed: what was measured decides what is protected, and is measured again with the plan in place."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "Budget",
    "Loss",
    "Prices",
    "alone",
    "candidate_plans",
    "exceeds",
    "losses_of",
    "whole_units",
]

if TYPE_CHECKING:
    from holdfast.advise.budget import Budget, Prices
    from holdfast.advise.candidates import candidate_plans
    from holdfast.advise.losses import Loss, alone, exceeds, losses_of
    from holdfast.advise.protection_units import whole_units
else:
    __getattr__ = lazy_exports(__name__)
