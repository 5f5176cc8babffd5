"""Strategy documents and the controller's lookup."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.document import check_document, document_text, parse_document, read_document, write_document
from holdfast.errors import DocumentError, HoldfastError
from holdfast.planning.laar import Instance, Strategy, plan_strategy, read_strategy
from holdfast.planning.laar.examples import figure_1


def grid(xs=(1.0, 2.0, 4.0), ys=(10.0, 20.0)):
    """A strategy over two sources."""
    return Strategy.model_validate(
        {
            "application": "grid",
            "solver": "given",
            "outcome": "SOL",
            "sla": 0.5,
            "internal_completeness": 0.5,
            "cost": 1.0,
            "billing_period_s": 1.0,
            "replicas": 2,
            "placement": {"p": ["h1", "h2"]},
            "configurations": [
                {"name": f"x={x:g},y={y:g}", "rates": {"x": x, "y": y}, "probability": 1 / 6, "active": {"p": [0]}}
                for x in xs
                for y in ys
            ],
        }
    )


def test_strategy_round_trip(tmp_path):
    planned = plan_strategy(figure_1(), sla=0.6)
    write_document(tmp_path / "strategy.json", planned.strategy)
    again = read_document(tmp_path / "strategy.json", Strategy)
    assert again == planned.strategy
    assert (again.array(planned.instance) == planned.active).all()


def test_lookup_chooses_nearest_dominating_configuration():
    match = grid().lookup({"x": 1.5, "y": 9.0})
    assert match.activation.name == "x=2,y=10" and match.dominates


def test_equal_rate_is_dominated():
    assert grid().lookup({"x": 2.0, "y": 20.0}).activation.name == "x=2,y=20"


def test_rates_above_all_configurations_are_reported():
    match = grid().lookup({"x": 5.0, "y": 12.0})
    assert match.activation.name == "x=4,y=20"
    assert not match.dominates and match.exceeded == {"x": 1.0}


def test_lookup_requires_rates_of_all_sources():
    with pytest.raises(HoldfastError, match="looked up by the rates of x, y; got rates of x"):
        grid().lookup({"x": 1.0})


@given(st.floats(0, 4), st.floats(0, 20))
def test_lookup_never_underestimates_if_any_configuration_dominates(x, y):
    match = grid().lookup({"x": x, "y": y})
    assert match.dominates
    assert match.activation.rates["x"] >= x and match.activation.rates["y"] >= y
    away = (match.activation.rates["x"] - x) ** 2 + (match.activation.rates["y"] - y) ** 2
    for other in grid().configurations:
        if other.rates["x"] >= x and other.rates["y"] >= y:
            assert away <= (other.rates["x"] - x) ** 2 + (other.rates["y"] - y) ** 2


def test_all_errors_of_a_strategy_are_reported():
    data = grid().model_dump(mode="json")
    data["configurations"][0]["active"] = {"p": []}
    data["configurations"][1]["active"] = {"p": [0, 2]}
    data["configurations"][2]["active"] = {"q": [0]}
    data["configurations"][3]["rates"] = {"x": -1.0}
    data["placement"] = {"p": ["h1"]}
    with pytest.raises(DocumentError) as caught:
        check_document(data, Strategy)
    message = "\n".join(caught.value.errors)
    for words in (
        "configurations[0].active.p: has no active replica; every PE needs one (LAAR Eq. 12)",
        "configurations[1].active.p: wanted different replicas from 0 to 1, got [0, 2]",
        "configurations[2].active: and placement differ in PE 'p'",
        "configurations[3].rates: wanted rates of the sources x, y, got x",
        "configurations[3].rates.x: wanted a number of at least 0, got -1.0",
        "placement.p: wanted 2 nodes (one per replica), got ['h1']",
    ):
        assert words in message


def test_strategy_for_other_configurations_is_an_error():
    instance = Instance.of(figure_1())
    with pytest.raises(HoldfastError, match="strategy of 'grid' lacks configuration 'low'"):
        grid().array(instance)


def test_strategy_json_has_active_replicas():
    text = document_text(Strategy.of(Instance.of(figure_1()), np.ones((2, 2, 2), dtype=bool)), json_text=True)
    assert parse_document(text, Strategy, json_text=True).configurations[1].active == {"pe1": (0, 1), "pe2": (0, 1)}


@pytest.mark.parametrize("most", [1e160, 1e300, 1.7e308])
def test_lookup_distinguishes_very_large_rates(most):
    s = grid(xs=(1.0, most), ys=(10.0, most))
    assert s.lookup({"x": most, "y": 10.0}).activation.rates == {"x": most, "y": 10.0}
    assert s.lookup({"x": 0.0, "y": most}).activation.rates == {"x": 1.0, "y": most}
    assert grid().lookup({"x": most, "y": most}).activation.name == "x=4,y=20"


def test_strategy_names_operators_and_placement(tmp_path):
    planned = plan_strategy(figure_1(), sla=0.6)
    path = tmp_path / "strategy.json"
    write_document(path, planned.strategy)
    read = read_strategy(path)
    assert read == planned.strategy
    assert read.operators.keys() == read.placement.keys() == set(figure_1().pes)
