"""LAAR (EDBT 2014): choose which replicas are active at which input rates, to meet an SLA on internal completeness at least cost.

Read `planner.py` first: `plan_strategy` leads from a descriptor to a strategy. Where the paper's parts are:

| part of the paper | module |
|---|---|
| replica activation strategy s, Eq. 4; lookup by rates, section 4.6 | `strategy.py` |
| placement of replicas, Eq. 3 | `placement.py` |
| expected rates and work, section 4.2 | `rates.py`; as arrays: `instance.py` |
| internal completeness (BIC, FIC, IC), Eq. 5 to 8 | `completeness.py` |
| cost, Eq. 13; node load, Eq. 11; feasibility, Eq. 10 to 12 | `completeness.py` |
| pessimistic failure model, Eq. 14; other failure models | `failure_models.py` |
| FT-Search and its prunings, section 4.5 | in papers/: `holdfast_papers/laar/ftsearch.py`, `ftsearch_kernel.py` |
| search outcomes BST, SOL, NUL and TMO, Figure 4 | `solver.py` |
| NR, SR and GRD baselines, section 5.2 | `baselines.py` |

Beyond the paper: `milp.py` (exact solver, with `linear_programme.py`, `milp_search.py` and `packing.py`),
`failure_model_solver.py`, `exhaustive.py`, `pricing.py`, `explanation.py`.
"""

from holdfast.planning.laar.baselines import BASELINES, baseline, greedy, non_replicated, static_replication
from holdfast.planning.laar.completeness import (
    best_case,
    cost,
    failure_case,
    internal_completeness,
    node_load,
    required_completeness,
    violations,
)
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.exhaustive import Exhaustive
from holdfast.planning.laar.explanation import infeasible_error, next_steps, reasons
from holdfast.planning.laar.failure_model_solver import FailureModelSolver
from holdfast.planning.laar.failure_models import FailureModel, Independent, NodeCrash, Pessimistic, failure_model
from holdfast.planning.laar.infeasibility import InfeasibleError
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.linear_programme import Programme, fits_whole
from holdfast.planning.laar.milp import Milp, most_complete
from holdfast.planning.laar.placement import place
from holdfast.planning.laar.planner import SOLVERS, PlannedStrategy, plan_strategy, solver_named
from holdfast.planning.laar.pricing import Account, Deal, account, negotiate
from holdfast.planning.laar.rates import expected_rates, expected_work
from holdfast.planning.laar.solver import FoundStrategy, Outcome, Pruning, Solution, Solver, base_cost, solved
from holdfast.planning.laar.strategy import Activation, Match, Strategy, read_strategy
