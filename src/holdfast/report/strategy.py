"""The HTML page of a strategy: which replicas are active in which configuration and why, cost and internal completeness."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from holdfast.planning.laar import Instance, Strategy
from holdfast.planning.laar.completeness import cost, node_load
from holdfast.planning.laar.instance import IC_TOLERANCE, Active
from holdfast.planning.laar.strategy import Activation
from holdfast.report.page import cards, heading, html_page, long_table, paragraph, table
from holdfast.report.plot import INK, SERIES, draw_svg

SHOWN, STRATEGY = 120, "in the strategy"
"""Rows of a table on the page, and where all rows are."""

ACTIVE, IDLE = "●", "○"
OUTCOMES = {
    "BST": "no strategy costs less",
    "SOL": "a cheaper one may exist",
    "breaks": "it violates a constraint",
}
SHAPES = "sv^DPX"


def strategy_page(
    strategy: Strategy,
    instance: Instance,
    *,
    others: Sequence[Strategy] = (),
    cheapest: Sequence[tuple[float, float]] = (),
) -> str:
    """Return the page of a strategy. `others` are the strategies of other solvers, `cheapest` the least cost for some ICs."""
    active = strategy.array(instance)
    parts = [
        paragraph(_promise(strategy)),
        *(paragraph(f"It breaks: {text}.") for text in strategy.breaks),
        *(paragraph(f"Warning: {text}.") for text in strategy.warnings),
        *([paragraph(f"Next: {strategy.next.why}.")] if strategy.next is not None else []),
        heading("What it costs"),
        table(("", "this strategy", "every replica always active"), _costs(strategy, instance, active), words=("",)),
        *_cost_plot(strategy, others, cheapest),
        heading("Active replicas by configuration"),
        paragraph(f"{ACTIVE} is an active replica, {IDLE} an idle one, each with its node.", note=True),
        _activation(strategy),
        paragraph("The load of nodes, as a share of their capacity:"),
        _load(instance, active),
        heading("Why"),
        *_reasons(strategy),
    ]
    if len(others) > 1:
        parts += [heading("Other solvers"), _compared(others)]
    return html_page(f"A strategy for {strategy.application}", parts)


def _promise(strategy: Strategy) -> str:
    under = "pessimistic failures" if strategy.failure == "pessimistic" else f"failure model {strategy.failure}"
    verdict = "met" if strategy.internal_completeness >= strategy.sla - IC_TOLERANCE else "not met"
    return (
        f"Under {under} PEs process {strategy.internal_completeness:.4f} of their tuples (internal completeness); the SLA asks for "
        f"{strategy.sla:.10g}, which is {verdict}. Solver: {strategy.solver}: {OUTCOMES.get(strategy.outcome, strategy.outcome)}."
    )


def _costs(strategy: Strategy, instance: Instance, active: Active) -> list[tuple[str, ...]]:
    full = cost(instance, active | True)
    period = f"CPU seconds per billing period of {strategy.billing_period_s:,.10g} s"
    rows: list[tuple[str, ...]] = [(period, f"{strategy.cost:,.6g}", f"{full:,.6g}")]
    if full > 0:
        rows.append(("share", f"{strategy.cost / full:.0%}", "100%"))
    if strategy.bound > 0:
        rows.append(("any strategy of this SLA costs at least", f"{strategy.bound:,.6g}", ""))
    if strategy.money is not None:
        money = strategy.money
        rows += [
            (name, f"{value:,.6g}", "")
            for name, value in (
                ("running cost", money.running_cost),
                ("expected penalty", money.expected_penalty),
                ("fare", money.fare),
                ("profit", money.profit),
            )
        ]
    return rows


def _activation(strategy: Strategy) -> str:
    """Return a table of PEs by configurations: each replica with its node, active or idle."""
    heads = {one.name: f"{one.name} ({one.probability:.0%}: {_rates(one.rates)})" for one in strategy.configurations}

    def cell(one: Activation, pe: str) -> str:
        return "  ".join(f"{ACTIVE if j in one.active[pe] else IDLE} {node}" for j, node in enumerate(strategy.placement[pe]))

    rows = [(pe, *(cell(one, pe) for one in strategy.configurations)) for pe in strategy.placement]
    return long_table(("PE", *heads.values()), rows, most=SHOWN, where=STRATEGY, names=tuple(heads.values()))


def _rates(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{source} {rate:,.4g}/s" for source, rate in rates.items())


def _load(instance: Instance, active: Active) -> str:
    load = node_load(instance, active)
    rows = [
        (node, f"{instance.capacity[n]:,.4g}", *(f"{load[c, n] / instance.capacity[n]:.0%}" for c in range(len(load))))
        for n, node in enumerate(instance.nodes)
    ]
    columns = ("node", "CPU s per s", *(configuration.name for configuration in instance.configurations))
    return long_table(columns, rows, most=SHOWN, where="in the descriptor")


def _reasons(strategy: Strategy) -> list[str]:
    rows = [(pe, one.name, why) for one in strategy.configurations for pe, why in one.why.items()]
    if not rows:
        return [paragraph("The strategy gives no reasons.")]
    columns = ("PE", "configuration", "why")
    return [long_table(columns, rows, most=SHOWN, where=STRATEGY, words=("why",), names=("configuration",))]


def _compared(others: Sequence[Strategy]) -> str:
    rows = [
        (one.solver, one.outcome, f"{one.internal_completeness:.4f}", f"{one.cost:,.6g}", "; ".join(one.breaks) or "nothing")
        for one in others
    ]
    return table(("solver", "outcome", "IC", "CPU seconds", "breaks"), rows, words=("breaks",), names=("outcome",))


def _cost_plot(strategy: Strategy, others: Sequence[Strategy], cheapest: Sequence[tuple[float, float]]) -> list[str]:
    """Return the plot of completeness against cost, if more than this strategy is known."""
    if len(others) < 2 and not cheapest:
        return []
    return [heading("What others cost"), cards([cost_plot(strategy, others, cheapest)])]


def cost_plot(strategy: Strategy, others: Sequence[Strategy], cheapest: Sequence[tuple[float, float]]) -> str:
    """Plot completeness against cost: the cheapest strategy of each SLA as a line, this one and the others as points."""

    def draw(axes: Axes) -> None:
        if cheapest:
            axes.plot(*zip(*cheapest, strict=True), marker=".", color=SERIES[0], label="the cheapest of each SLA")
        for number, one in enumerate(others):
            shape, colour = SHAPES[number % len(SHAPES)], SERIES[1 + number % (len(SERIES) - 1)]
            axes.plot([one.cost], [one.internal_completeness], shape, color=colour, label=one.solver)
        axes.plot(
            [strategy.cost],
            [strategy.internal_completeness],
            "o",
            markersize=8,
            markerfacecolor="none",
            color=INK,
            label="this one",
        )
        axes.set(xlabel="CPU seconds per billing period", ylabel="internal completeness", ylim=(-0.03, 1.04))
        axes.figure.legend(loc="outside lower center", ncols=3)

    return draw_svg(draw, label="internal completeness against cost", height=3.8)
