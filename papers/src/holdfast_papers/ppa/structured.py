"""PPA Algorithm 3, structured topologies: adds the segment, completed to MC-trees, with the highest gain per replica."""

from dataclasses import dataclass

from holdfast.planning.ppa import ExpansionPool, Measure, Plan, Segment, build_plan, check_budget, decompose, segments


@dataclass(frozen=True, slots=True)
class Structured:
    """Expands the plan by one set of connected segments at a time, chosen by gain per replica.

    It is meant for structured topologies. It also handles full edges, which are boundaries of units like others.
    """

    name: str = "structured"

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        pool = ExpansionPool(measure, segments_of(measure))
        while pool.expand(budget):
            pass
        return build_plan(self, measure, budget, chosen=pool.chosen())


def segments_of(measure: Measure) -> list[Segment]:
    """Return the segments of the whole topology. In a full sub-topology every task is a segment."""
    result: list[Segment] = []
    for sub in decompose(measure.topology):
        result += segments(measure, sub.operators)
    return result
