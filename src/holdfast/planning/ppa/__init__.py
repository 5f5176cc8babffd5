"""Partially active replication plans (PPA): which tasks of a topology are worth a replica."""

from holdfast.planning.ppa.completeness import internal_completeness
from holdfast.planning.ppa.criticality import measured_criticality
from holdfast.planning.ppa.criticality_document import CriticalityDocument, read_impact
from holdfast.planning.ppa.dynamic import Dynamic
from holdfast.planning.ppa.fidelity import Measure, output_fidelity
from holdfast.planning.ppa.frontier import Frontier
from holdfast.planning.ppa.full import Full
from holdfast.planning.ppa.generator import Ranges, generate
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.mc_trees import count_trees, trees
from holdfast.planning.ppa.plan_document import PlanDocument, read_plan
from holdfast.planning.ppa.planner import Plan, Planner
from holdfast.planning.ppa.registry import PLANNERS, planner_names, planner_of
from holdfast.planning.ppa.structure_aware import StructureAware
from holdfast.planning.ppa.structured import Structured

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
    "Ranges",
    "StructureAware",
    "Structured",
    "count_trees",
    "generate",
    "internal_completeness",
    "measured_criticality",
    "output_fidelity",
    "planner_names",
    "planner_of",
    "read_impact",
    "read_plan",
    "trees",
]
