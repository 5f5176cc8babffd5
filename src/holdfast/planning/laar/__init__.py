"""LAAR: which replicas to keep active at which input rates, so that an SLA on internal completeness holds at least cost."""

from holdfast.planning.laar.baselines import BASELINES, baseline, greedy, non_replicated, static_replication
from holdfast.planning.laar.best_of_two import Best
from holdfast.planning.laar.chosen_failure import UnderFailure
from holdfast.planning.laar.completeness import best_case, cost, failure_case, internal_completeness, node_load, violations
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.exhaustive import Exhaustive
from holdfast.planning.laar.explanation import infeasible, next_steps, reasons
from holdfast.planning.laar.failure_models import FailureModel, Independent, NodeCrash, Pessimistic, failure_model
from holdfast.planning.laar.ftsearch import FTSearch
from holdfast.planning.laar.ftsearch_kernel import PRUNINGS
from holdfast.planning.laar.generator import Ranges, corpus, generate
from holdfast.planning.laar.infeasibility import InfeasibleError
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.milp import Milp, most_complete
from holdfast.planning.laar.placement import place
from holdfast.planning.laar.planner import SOLVERS, PlannedStrategy, plan_strategy, solver_named
from holdfast.planning.laar.pricing import Account, Deal, account, negotiate
from holdfast.planning.laar.rates import expected_rates, expected_work
from holdfast.planning.laar.solver import Outcome, Pruning, Solution, Solver
from holdfast.planning.laar.strategy import Activation, Match, Strategy, read_strategy

__all__ = [
    "BASELINES",
    "PRUNINGS",
    "SOLVERS",
    "Account",
    "Activation",
    "Active",
    "Best",
    "Deal",
    "Exhaustive",
    "FTSearch",
    "FailureModel",
    "Independent",
    "InfeasibleError",
    "Instance",
    "Match",
    "Milp",
    "NodeCrash",
    "Outcome",
    "Pessimistic",
    "PlannedStrategy",
    "Pruning",
    "Ranges",
    "Solution",
    "Solver",
    "Strategy",
    "UnderFailure",
    "account",
    "baseline",
    "best_case",
    "corpus",
    "cost",
    "expected_rates",
    "expected_work",
    "failure_case",
    "failure_model",
    "figure_1",
    "generate",
    "greedy",
    "infeasible",
    "internal_completeness",
    "most_complete",
    "negotiate",
    "next_steps",
    "node_load",
    "non_replicated",
    "place",
    "plan_strategy",
    "read_strategy",
    "reasons",
    "solver_named",
    "static_replication",
    "violations",
]
