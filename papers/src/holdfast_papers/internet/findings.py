"""Findings from the three days of the data center."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_papers.finding import Finding

BEYOND = "(not in the papers)"


def findings(days: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Check the costs and losses of the plans. `days` has a record for each day and plan, such as "rack/SR"."""

    def listed(figure: str, form: str, day: str, *plans: str) -> str:
        return f"{day}: " + ", ".join(f"{plan} {days[f'{day}/{plan}'][figure]:{form}}" for plan in plans)

    def of(figure: str, day: str, plan: str) -> float:
        return float(days[f"{day}/{plan}"][figure])

    failure_days, replicated = ("rack", "pdu"), ("SR", "LAAR", "PPA", "combined")
    cost = {plan: of("cpu_s", "calm", plan) / of("cpu_s", "calm", "NR") for plan in replicated}
    return [
        Finding(
            "without failures, SR loses tuples that NR processes",
            BEYOND,
            listed("lost", ".3%", "calm", "SR", "NR"),
            of("lost", "calm", "SR") > of("lost", "calm", "NR"),
        ),
        Finding(
            "LAAR loses less than NR when a rack or a power unit fails",
            BEYOND,
            "; ".join(listed("lost", ".3%", day, "LAAR", "NR") for day in failure_days),
            all(of("lost", day, "LAAR") < of("lost", day, "NR") for day in failure_days),
        ),
        Finding(
            "PPA and the combined plan lose least, thanks to checkpoints",
            BEYOND,
            "; ".join(listed("lost", ".3%", day, "PPA", "combined", "LAAR", "SR") for day in failure_days),
            all(
                max(of("lost", day, "PPA"), of("lost", day, "combined")) < min(of("lost", day, "LAAR"), of("lost", day, "SR"))
                for day in failure_days
            ),
        ),
        Finding(
            "the combined plan's tuples wait less than PPA's",
            BEYOND,
            "; ".join(listed("waiting_s", ".2f", day, "combined", "PPA") + " s" for day in ("calm", *failure_days)),
            all(of("waiting_s", day, "combined") < of("waiting_s", day, "PPA") for day in ("calm", *failure_days)),
        ),
        Finding(
            "SR costs most",
            BEYOND,
            ", ".join(f"{plan} {times:.2f} times NR's CPU time" for plan, times in cost.items()) + ", without failures",
            all(cost["SR"] > cost[plan] for plan in replicated if plan != "SR"),
        ),
    ]
