"""Explanations of strategies: why each replica is active, what more IC would cost, and why an SLA cannot be met."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.baselines import greedy
from holdfast.planning.laar.completeness import format_ic_below, internal_completeness, node_load, processed_rates, violations
from holdfast.planning.laar.failure_models import FailureModel, Pessimistic
from holdfast.planning.laar.infeasibility import InfeasibleError, overload_error
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Floats, Instance
from holdfast.planning.laar.milp import most_complete


@dataclass(frozen=True, slots=True)
class Step:
    """Making one PE full in one configuration: the IC it would add and the CPU seconds per billing period it would cost."""

    pe: str
    configuration: str
    ic: float
    cost: float
    fits: bool


@dataclass(frozen=True, slots=True)
class ReplicaReason:
    """A sentence that says why a PE has its active replicas in one configuration."""

    pe: str
    configuration: str
    why: str


def infeasible_error(instance: Instance, *, seconds: float = 20.0) -> InfeasibleError:
    """Return the error that names the best possible IC and what prevents more, as far as `seconds` suffice to find out."""
    best, proven = most_complete_or_greedy(instance, seconds=seconds)
    if best is None and proven > 0:
        return InfeasibleError(
            f"no strategy for '{instance.application}' meets an internal completeness of {instance.sla:.10g}; the best possible "
            f"value was not determined in the {seconds:.3g} s left; give more seconds, or lower the SLA"
        )
    if best is None:
        return overload_error(instance)
    reached = internal_completeness(instance, best)
    known = f"the best that can be met is {format_ic_below(reached, instance.sla)}"
    if proven > reached + 1e-4:
        at_most = f", and none exceeds {proven:.4f}" if proven < 1 else ", which may not be the best possible"
        known = f"the best found in time reaches {format_ic_below(reached, instance.sla)}{at_most}"
    blocks = "; ".join(_blocks(instance, best)) or "no node is too small by itself"
    return InfeasibleError(
        f"no strategy for '{instance.application}' meets an internal completeness of {instance.sla:.10g}: {known}; "
        f"what blocks more: {blocks}; lower the SLA, or add nodes or cores"
    )


def infeasible_error_under(instance: Instance, best: Active | None, *, proven: bool, failure: FailureModel) -> InfeasibleError:
    """Return the error that names the best IC under a failure model, whether that is proven, and what prevents more."""
    if best is None and proven:
        return overload_error(instance)
    head = f"no strategy for '{instance.application}' meets an internal completeness of {instance.sla:.10g} under failure model"
    if best is None:
        return InfeasibleError(f"{head} {failure.name}, as far as the search found in time; give more seconds, or lower the SLA")
    reached = internal_completeness(instance, best, failure=failure)
    most = internal_completeness(instance, np.ones_like(best), failure=failure)
    known = f"the best that can be met is {format_ic_below(reached, instance.sla)}"
    if not proven:
        known = f"the best found reaches {format_ic_below(reached, instance.sla)}, and none exceeds {most:.4f}"
    if most < instance.sla - IC_TOLERANCE:
        blocks = f"even all replicas on nodes of any size would reach {format_ic_below(most, instance.sla)} only"
        return InfeasibleError(
            f"{head} {failure.name}: {known}; what blocks more: {blocks}; lower the SLA, or give more replicas or more nodes to "
            "spread them on"
        )
    blocks = "; ".join(_blocks(instance, best)) or "no node by itself: replicas that would add more do not fit together"
    return InfeasibleError(f"{head} {failure.name}: {known}; what blocks more: {blocks}; lower the SLA, or add nodes or cores")


def undecided_error(instance: Instance, best: Active | None, *, proven: float, solver: str, seconds: float) -> HoldfastError:
    """Return the error of a search that ended with neither a strategy nor a proof that none exists."""
    known = "not even one without an SLA"
    if best is not None:
        known = f"the highest internal completeness of those found is {internal_completeness(instance, best):.4f}"
    at_most = f", and none exceeds {proven:.4f}" if 0 < proven < 1 else ""
    other = "" if solver == "milp" else ", or take solver 'milp'"
    return HoldfastError(
        f"no strategy for '{instance.application}' that meets {instance.sla:.10g} was found by {solver} in {seconds:g} s, nor a "
        f"proof that there is none; {known}{at_most}; give more seconds, or lower the SLA{other}"
    )


def most_complete_or_greedy(instance: Instance, *, seconds: float) -> tuple[Active | None, float]:
    """Return `most_complete`, or the greedy baseline if it is better or if nothing else was found in time."""
    best, proven = most_complete(instance, seconds=seconds)
    if best is None and proven <= 0:
        return None, 0.0
    by_greedy = greedy(instance)
    if any(violations(instance, by_greedy, sla=False)):
        return best, proven
    if best is None or internal_completeness(instance, by_greedy) > internal_completeness(instance, best):
        return by_greedy, proven
    return best, proven


def reasons(instance: Instance, active: Active, *, failure: FailureModel | None = None) -> Iterator[ReplicaReason]:
    """Yield the reason for the active replicas of each PE in each configuration."""
    now = internal_completeness(instance, active, failure=failure)
    for c, configuration in enumerate(instance.configurations):
        toggled = _Toggled.of(instance, active, c, failure=failure)
        for i, pe in enumerate(instance.pes):
            gain, price = float(toggled.gain[i]), float(toggled.price[i])
            if active[c, i].all():
                without = max(0.0, now + gain)
                if instance.shape[2] == 1:
                    why = "its only replica is active"
                elif without < instance.sla - IC_TOLERANCE:
                    fall = f"IC would fall from {now:.4f} to {format_ic_below(without, instance.sla)}"
                    why = f"all replicas active; with one, {fall}, below the SLA of {instance.sla:.10g}"
                else:
                    why = f"all replicas active; one alone would save {-price:.4g} CPU s for {-gain:.4f} IC"
            else:
                replicas = _listed(instance, active, c, i)
                why = f"{replicas}; all would add {gain:.4f} IC for {price:.4g} CPU s{_unless(instance, toggled.load[i])}"
                if gain <= 0:
                    why = f"{replicas}; more would add nothing{_since(instance, c, i, failure)}"
            yield ReplicaReason(pe, configuration.name, why)


@dataclass(frozen=True, slots=True, eq=False)
class _Toggled:
    """The effect of toggling each PE in one configuration: full if it is not, or only its first replica if it is full.

    `gain` is the added IC, `price` the added CPU seconds per billing period, and `load` the resulting load of the nodes, each
    by PE. They do not depend on the other configurations.
    """

    gain: Floats
    price: Floats
    load: Floats

    @classmethod
    def of(cls, instance: Instance, active: Active, c: int, *, failure: FailureModel | None) -> "_Toggled":
        pes = len(instance.pes)
        changed = np.repeat(active[c : c + 1], pes + 1, axis=0)  # the last row is unchanged
        for i in range(pes):
            changed[i, i, 1:] = ~active[c, i].all()
            changed[i, i, 0] = True
        many = instance.repeated(c, pes + 1)
        scenarios = (failure or Pessimistic()).scenarios(many, changed)
        processed = np.sum([share * processed_rates(many, phi) for share, phi in scenarios], axis=0).sum(axis=1) * many.probability
        costs = (many.work * changed.sum(axis=2)).sum(axis=1) * many.probability * instance.billing_period_s
        best = float((instance.probability @ instance.rate_in).sum())
        gain = (processed[:-1] - processed[-1]) / best if best > 0 else np.zeros(pes)
        return cls(gain, costs[:-1] - costs[-1], node_load(many, changed)[:-1])


def _unless(instance: Instance, load: Floats) -> str:
    """Return the clause that names the nodes that a load would exceed, or an empty text."""
    over = [repr(instance.nodes[h]) for h in np.flatnonzero(load > instance.limit)]
    return f", but node{'s' if len(over) > 1 else ''} {', '.join(over)} cannot carry that" if over else ""


def _since(instance: Instance, c: int, i: int, failure: FailureModel | None) -> str:
    """Return the clause that says why more replicas of a PE add nothing, or an empty text if that is unknown."""
    if not instance.rate_in[c, i] > 0:
        return ", since nothing arrives"
    return ", since its inputs are not full" if isinstance(failure or Pessimistic(), Pessimistic) else ""


def _listed(instance: Instance, active: Active, c: int, i: int) -> str:
    """Return the active replicas of a PE that is not full, with their nodes, as text."""
    on = [f"replica {j} on '{instance.nodes[instance.node_of[i, j]]}'" for j in np.flatnonzero(active[c, i])]
    return f"{on[0]} alone" if len(on) == 1 else ", ".join(on)


def next_steps(instance: Instance, active: Active, *, failure: FailureModel | None = None) -> list[Step]:
    """Return the PEs that could become full, by IC per CPU second, highest first: what the next unit of budget would buy."""
    steps = []
    for c, configuration in enumerate(instance.configurations):
        toggled = _Toggled.of(instance, active, c, failure=failure)
        for i in np.flatnonzero(~active[c].all(axis=1)):
            fits = bool((toggled.load[i] <= instance.limit).all())
            ic, price = float(toggled.gain[i]), float(toggled.price[i])
            steps.append(Step(instance.pes[i], configuration.name, ic=ic, cost=price, fits=fits))
    useful = [step for step in steps if step.ic > 0]
    return sorted(useful, key=lambda s: (not s.fits, -s.ic / s.cost if s.cost > 0 else -np.inf, s.pe, s.configuration))


def next_step_text(instance: Instance, active: Active, *, failure: FailureModel | None = None) -> tuple[Step | None, str]:
    """Return the step that the next unit of budget would buy, or None if nodes can carry none, and a sentence about it."""
    steps = next_steps(instance, active, failure=failure)
    if steps and steps[0].fits:  # steps that fit come first
        step = steps[0]
        return step, f"all replicas of {step.pe} in '{step.configuration}' would add {step.ic:.4f} IC for {step.cost:.4g} CPU s"
    if steps:
        return None, "no PE fits with all its replicas unless others move; more IC needs another SLA or more nodes"
    if internal_completeness(instance, active, failure=failure) >= 1 - IC_TOLERANCE:
        return None, "nothing more to buy: IC is 1"
    if active.all():
        return None, "every replica is active; more IC needs more replicas, or more nodes to spread them on"
    return None, "nothing more to buy: no PE would add IC by becoming full"


def _blocks(instance: Instance, best: Active) -> Iterator[str]:
    """Yield, for each configuration in which some PEs are not full, the nodes that are too small for all replicas."""
    whole = node_load(instance, np.ones_like(best))
    load = node_load(instance, best)
    for c, configuration in enumerate(instance.configurations):
        alone = [instance.pes[i] for i in np.flatnonzero(~best[c].all(axis=1))]
        over = np.flatnonzero(whole[c] > instance.limit)
        if not alone or not len(over):
            continue
        nodes = ", ".join(
            f"'{instance.nodes[h]}' (all replicas need {whole[c, h]:.3g} of {instance.capacity[h]:.3g} cores, "
            f"{load[c, h]:.3g} used)"
            for h in over
        )
        listed = ", ".join(alone[:6]) + (f" and {len(alone) - 6} more" if len(alone) > 6 else "")
        yield f"in configuration '{configuration.name}' {nodes} cannot carry all replicas of {listed}"
