"""Compare the same failure with and without an active replica (DEBS'11, section 6.4 and Figure 12)."""

from dataclasses import dataclass

from holdfast.assess.assessment import Assessment
from holdfast.assess.campaign import Campaign
from holdfast.assess.targets import target_name


@dataclass(frozen=True)
class WhatIf:
    """Impact and recovery of a failing target: without a replica, and with a replica of the group that it belongs to."""

    failing: str
    group: str
    failover_s: float
    impact_before: float
    impact_after: float
    recovery_before: int
    recovery_after: int


def compare_with_replicas(campaign: Campaign, assessment: Assessment) -> list[WhatIf]:
    """Return a comparison for every protected group and each target in it."""
    comparisons = []
    for case in campaign.cases:
        if case.failover_s is None:
            continue
        after = assessment.case(case.name)
        for other in campaign.cases:
            if other.failover_s is None and set(other.target) <= set(case.target):
                before = assessment.case(other.name)
                comparisons.append(
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
    return comparisons
