"""PPA (ICDE 2016): choose which tasks of a topology get an active replica, within a budget.

Read `planner.py` first: the interface of planners and the plan that they return. Where the paper's parts are:

| part of the paper | module |
|---|---|
| information loss and output fidelity (OF), Eq. 1 to 4 | `fidelity.py` |
| minimal complete trees (MC-trees), Definition 1, Figure 1 | in papers/: `holdfast_papers/ppa/mc_trees.py` |
| Algorithm 1, dynamic programming | in papers/: `dynamic.py` |
| Algorithm 2, greedy | `greedy.py` |
| units, segments and sub-topologies, section IV-C, Figures 3 and 4 | `decomposition.py` |
| Algorithm 3, structured topologies | in papers/: `structured.py`; its step: `expansion_pool.py`, with `tree_completion.py` |
| Algorithm 4, full topologies | in papers/: `full.py` |
| Algorithm 5, structure-aware | `structure_aware.py` |
| plan adaptation, section V-C | `adaptation.py` |
| internal completeness as a measure, section VI-B, Figure 12 | `completeness.py` |

Beyond the paper: `frontier.py`, a planner with a bound (with `formula.py`, `knapsack.py`, `shared_terms.py` and
`relaxation.py`), `budget_curve.py`, `criticality.py` and `explanation.py`. `plan_document.py` is the plan as a document, and
`registry.py` finds planners by name.
"""

from holdfast.planning.ppa.completeness import internal_completeness
from holdfast.planning.ppa.criticality import measured_criticality
from holdfast.planning.ppa.criticality_document import CriticalityDocument, read_impact
from holdfast.planning.ppa.decomposition import Segment, SubTopology, decompose, segments
from holdfast.planning.ppa.expansion_pool import ExpansionPool
from holdfast.planning.ppa.fidelity import Measure, output_fidelity
from holdfast.planning.ppa.frontier import Frontier
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.plan_document import PlanDocument, read_plan
from holdfast.planning.ppa.planner import QUALITY_TOLERANCE, Plan, Planner, build_plan, check_budget, sorted_by_name
from holdfast.planning.ppa.registry import PLANNERS, planner_names, planner_of
from holdfast.planning.ppa.structure_aware import StructureAware, queues_of
from holdfast.planning.ppa.tree_completion import Links, Span
