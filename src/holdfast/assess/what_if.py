"""What if: the same failures with and without an active replica (DEBS'11, section 6.4 and Figure 12)."""

from dataclasses import dataclass

from holdfast.assess.assessment import Assessment
from holdfast.assess.campaign import Campaign
from holdfast.assess.targets import target_name


@dataclass(frozen=True)
class WhatIf:
    """A target that fails by itself, and when a group that it belongs to has a replica."""

    failing: str
    group: str
    failover_s: float
    impact_before: float
    impact_after: float
    recovery_before: int
    recovery_after: int


def compare_with_replicas(campaign: Campaign, assessment: Assessment) -> list[WhatIf]:
    """Every protected group, with each target that is part of it, before and after."""
    found = []
    for case in campaign.cases:
        if case.failover_s is None:
            continue
        after = assessment.case(case.name)
        for other in campaign.cases:
            if other.failover_s is None and set(other.target) <= set(case.target):
                before = assessment.case(other.name)
                found.append(
                    WhatIf(
                        failing=other.name,
                        group=target_name(case.target),
                        failover_s=case.failover_s,
                        impact_before=before.impact,
                        impact_after=after.impact,
                        recovery_before=before.recovery,
                        recovery_after=after.recovery,
                    )
                )
    return found
