"""The page of a strategy: who is active when and why, what that costs, promises and breaks."""

import re

import pytest

from holdfast.planning.laar import Instance, Strategy, baseline, plan_strategy
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.strategy import Money
from holdfast.report.strategy import strategy_page

INSTANCE = Instance.of(figure_1(), sla=0.6)


def baselines():
    return [Strategy.of(INSTANCE, baseline(name, INSTANCE), solver=name.lower()).explained(INSTANCE) for name in ("NR", "SR")]


@pytest.fixture(scope="module")
def strategy() -> Strategy:
    return plan_strategy(figure_1(), sla=0.6).explained()


def rows(text):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]


def test_page_shows_ic_and_cost(strategy):
    text = strategy_page(strategy, INSTANCE)
    assert f"PEs process {strategy.internal_completeness:.4f} of their tuples" in text
    assert "the SLA asks for 0.6, which is met" in text and "no strategy costs less" in text
    full = baselines()[1]
    costs = next(row for row in rows(text) if row and row[0].startswith("CPU seconds per billing period"))
    assert costs[1:] == [f"{strategy.cost:,.6g}", f"{full.cost:,.6g}"]
    assert ["share", f"{strategy.cost / full.cost:.0%}", "100%"] in rows(text)


def test_active_replicas_are_shown_by_configuration(strategy):
    table = rows(strategy_page(strategy, INSTANCE))
    for pe, nodes in strategy.placement.items():
        wanted = [
            "  ".join(f"{'●' if j in one.active[pe] else '○'} {node}" for j, node in enumerate(nodes))
            for one in strategy.configurations
        ]
        assert [pe, *wanted] in table
        assert {text.count("●") for text in wanted} == {1, 2}  # full at low, alone at high


def test_reasons_and_next_step_are_shown(strategy):
    text = strategy_page(strategy, INSTANCE)
    assert strategy.next is not None and strategy.next.why.replace("'", "&#x27;") in text
    low = strategy.configurations[0]
    assert all([pe, low.name, why.replace("'", "&#x27;")] in rows(text) for pe, why in low.why.items())


def test_violations_come_first():
    text = strategy_page(baselines()[1], INSTANCE)
    assert text.index("It breaks: node") < text.index("What it costs")


def test_several_strategies_are_compared_and_plotted(strategy):
    text = strategy_page(strategy, INSTANCE, others=[strategy, *baselines()], cheapest=[(10.0, 0.2), (20.0, 0.5)])
    assert "internal completeness against cost" in text and "the cheapest of each SLA" in text
    assert any(row[0] == "nr" and row[1] == "breaks" for row in rows(text) if row)
    assert "<svg" not in strategy_page(strategy, INSTANCE)


def test_money_is_shown_with_prices(strategy):
    money = Money(running_cost=12.5, expected_penalty=1.25, fare=40.0, profit=26.25)
    text = strategy_page(strategy.model_copy(update={"money": money}), INSTANCE)
    assert ["expected penalty", "1.25", ""] in rows(text) and ["profit", "26.25", ""] in rows(text)


def test_page_is_self_contained_and_escapes_names(strategy):
    text = strategy_page(strategy.model_copy(update={"application": "<app>"}), INSTANCE, others=baselines())
    assert not re.search(r'(src|href)="(?!#)', text) and "<script" not in text
    assert "&lt;app&gt;" in text and "<app>" not in text
