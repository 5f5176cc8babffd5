"""Partially active replication plans (PPA): which tasks of a topology are worth a replica."""

from holdfast.plan.ppa.completeness import internal_completeness
from holdfast.plan.ppa.criticality import measured_criticality
from holdfast.plan.ppa.document import PlanDocument, read_plan
from holdfast.plan.ppa.dynamic import Dynamic
from holdfast.plan.ppa.fidelity import Measure, output_fidelity
from holdfast.plan.ppa.frontier import Frontier
from holdfast.plan.ppa.full import Full
from holdfast.plan.ppa.greedy import Greedy
from holdfast.plan.ppa.impact import CriticalityDocument, read_impact
from holdfast.plan.ppa.mctree import count_trees, trees
from holdfast.plan.ppa.planner import Plan, Planner
from holdfast.plan.ppa.registry import PLANNERS, planner_names, planner_of
from holdfast.plan.ppa.structure_aware import StructureAware
from holdfast.plan.ppa.structured import Structured

__all__ = [
    "PLANNERS",
    "CriticalityDocument",
    "Dynamic",
    "Frontier",
    "Full",
    "Greedy",
    "Measure",
    "Plan",
    "PlanDocument",
    "Planner",
    "StructureAware",
    "Structured",
    "count_trees",
    "internal_completeness",
    "measured_criticality",
    "output_fidelity",
    "planner_names",
    "planner_of",
    "read_impact",
    "read_plan",
    "trees",
]
