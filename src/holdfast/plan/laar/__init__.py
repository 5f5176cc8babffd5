"""LAAR: which replicas to keep active at which input rates, so that an SLA on internal completeness holds at least cost."""

from holdfast.plan.laar.baselines import BASELINES, baseline, greedy, non_replicated, static_replication
from holdfast.plan.laar.best import Best
from holdfast.plan.laar.chosen_failure import UnderFailure
from holdfast.plan.laar.completeness import best_case, cost, failure_case, host_load, internal_completeness, violations
from holdfast.plan.laar.contract import Account, Deal, account, negotiate
from holdfast.plan.laar.exhaustive import Exhaustive
from holdfast.plan.laar.explain import infeasible, next_steps, reasons
from holdfast.plan.laar.failure import FailureModel, HostCrash, Independent, Pessimistic, failure_model
from holdfast.plan.laar.ftsearch import FTSearch
from holdfast.plan.laar.generator import Ranges, corpus, generate
from holdfast.plan.laar.instance import Instance
from holdfast.plan.laar.milp import Milp, most_complete
from holdfast.plan.laar.misfit import InfeasibleError
from holdfast.plan.laar.placement import place
from holdfast.plan.laar.planner import SOLVERS, Planned, plan_strategy, solver_named
from holdfast.plan.laar.rates import expected_rates, expected_work
from holdfast.plan.laar.solver import Outcome, Pruning, Solution, Solver
from holdfast.plan.laar.strategy import Activation, Match, Strategy, read_strategy

__all__ = [
    "BASELINES",
    "SOLVERS",
    "Account",
    "Activation",
    "Best",
    "Deal",
    "Exhaustive",
    "FTSearch",
    "FailureModel",
    "HostCrash",
    "Independent",
    "InfeasibleError",
    "Instance",
    "Match",
    "Milp",
    "Outcome",
    "Pessimistic",
    "Planned",
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
    "generate",
    "greedy",
    "host_load",
    "infeasible",
    "internal_completeness",
    "most_complete",
    "negotiate",
    "next_steps",
    "non_replicated",
    "place",
    "plan_strategy",
    "read_strategy",
    "reasons",
    "solver_named",
    "static_replication",
    "violations",
]
