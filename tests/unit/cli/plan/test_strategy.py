"""Descriptors are planned into strategies, by completeness or by contract."""

import json
from pathlib import Path

import pytest

from holdfast.documents.descriptor import DescriptorNode, DescriptorSink, DescriptorSource, Input, Pe, Pricing, Rate
from holdfast.documents.document import read_document, write_document
from holdfast.planning.laar import Strategy
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.generator import Ranges, corpus

from .calls import fails, run


def priced(tmp_path: Path, *, penalty: float) -> Path:
    path = tmp_path / "priced.yaml"
    bare = figure_1(sla=0.6)
    pricing = Pricing(fare=90_000, cpu_second=0.01, penalty=penalty)
    write_document(path, bare.model_copy(update={"contract": bare.contract.model_copy(update={"pricing": pricing})}))
    return path


def changed(tmp_path: Path, **fields: object) -> Path:
    """The paper's example with other fields, as a file."""
    path = tmp_path / "changed.yaml"
    write_document(path, type(figure_1()).model_construct(**{**dict(figure_1()), **fields}))
    return path


def nodes(count: int, cores: float) -> dict[str, DescriptorNode]:
    return {f"node{n + 1}": DescriptorNode(cores=cores) for n in range(count)}


def test_descriptor_is_planned(descriptor, tmp_path):
    out = tmp_path / "strategy.json"
    result = run(descriptor, "--ic", 0.6, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["internal_completeness"] >= 0.6
    assert read_document(out, Strategy).application == figure_1().application


def test_solvers_are_compared_and_plotted(descriptor, tmp_path):
    result = run(descriptor, "--ic", 0.6, "--planner", "all", "--plot", tmp_path / "cost.svg")
    assert result.exit_code == 0, result.output
    assert all(f"\n{name} " in result.stdout for name in ("nr", "sr", "grd"))
    drawn = (tmp_path / "cost.svg").read_text()
    assert drawn.startswith("<svg") and "var(--" not in drawn
    assert all(f">{label}<" in drawn for label in ("the cheapest of each SLA", "nr", "sr", "grd"))


def test_topology_options_are_refused_for_descriptors(descriptor):
    assert "--budget: for task topologies only" in str(fails(descriptor, "--budget", 3))
    assert "there is no solver 'magic' of descriptors" in str(fails(descriptor, "--planner", "magic"))


def test_comparison_marks_overloaded_nodes(descriptor):
    lines = run(descriptor, "--ic", 0.6, "--planner", "all").stdout.splitlines()
    assert next(line for line in lines if line.startswith("sr ")).endswith("are overloaded")
    assert next(line for line in lines if line.startswith("grd ")).endswith("carry it")


@pytest.mark.parametrize(
    ("penalty", "says"),
    [
        (1_000, "IC 0.0000 breaks the SLA of 0.6: running cost plus expected penalty is 25883.2 (no strategy has less)"),
        (50_000, "IC 0.6667 keeps the SLA of 0.6: running cost plus expected penalty is 41472 (no strategy has less)"),
    ],
)
def test_contract_decides_whether_to_meet_the_sla(tmp_path, penalty, says):
    result = run(priced(tmp_path, penalty=penalty), "--by-contract")
    assert result.exit_code == 0, result.output
    assert says in result.stdout
    assert "contract: running cost " in result.stdout and "profit " in result.stdout


def test_contract_without_prices_is_an_error(descriptor, topology):
    assert "--by-contract wants prices" in str(fails(descriptor, "--by-contract"))
    assert "excludes --planner milp" in str(fails(descriptor, "--by-contract", "--planner", "milp"))
    assert "--by-contract: for application descriptors only" in str(fails(topology, "--budget", 2, "--by-contract"))


@pytest.mark.parametrize("name", ["nr", "sr", "grd"])
def test_baseline_shows_ic_cost_and_violations(descriptor, name):
    result = run(descriptor, "--ic", 0.6, "--planner", name)
    assert result.exit_code == 0, result.output
    assert f"(baseline {name.upper()}, which ignores the SLA)" in result.stdout.splitlines()[0]
    message = {
        "nr": "breaks: internal completeness is 0.0000, the SLA wants 0.6",
        "sr": "breaks: node 'node1' is overloaded in configuration 'high': load 1.6, capacity 1",
        "grd": "breaks nothing: nodes carry it, and the SLA is met",
    }
    assert message[name] in result.stdout
    breaks = json.loads(run(descriptor, "--ic", 0.6, "--planner", name, "--json").stdout).get("breaks")
    assert [f"breaks: {text}" for text in breaks] == [line for line in result.stdout.splitlines() if line.startswith("breaks: ")]


def test_refusing_solver_is_reported_in_comparison(tmp_path, papers_installed):
    path = tmp_path / "d.yaml"
    write_document(path, figure_1())
    strategies = json.loads(run(path, "--ic", 0.6, "--planner", "all", "--json").stdout)["strategies"]
    assert [one["solver"] for one in strategies] == ["milp", "exhaustive", "ft-search", "nr", "sr", "grd"]
    assert len({round(one["cost"]) for one in strategies[:3]}) == 1
    large = tmp_path / "large.yaml"
    (application,) = corpus(3, 1, ranges=Ranges(nodes=(2, 2), pes_per_node=(4, 4)))
    write_document(large, application)
    result = run(large, "--ic", 0.5, "--planner", "all")
    assert "exhaustive: 'app0000' has 4.3e+07 strategies" in result.stderr
    assert "\nmilp " in result.stdout and "\nexhaustive " not in result.stdout


def test_infeasible_comparison_shows_baselines_first(descriptor):
    result = run(descriptor, "--ic", 0.9, "--planner", "all")
    assert "the best that can be met is 0.6667" in str(result.exception)
    assert all(f"\n{name} " in result.stderr for name in ("nr", "sr", "grd"))
    assert result.stdout == ""


def test_prunings_are_shown_and_in_json(descriptor, papers_installed):
    lines = run(descriptor, "--ic", 0.6, "--planner", "ft-search").stdout.splitlines()
    (search,) = [line for line in lines if line.startswith("search: ")]
    assert all(f"{rule} " in search for rule in ("CPU", "COMPL", "COST", "DOM")) and "mean height" in search
    assert any(line.startswith("first solution: ") for line in lines)
    story = json.loads(run(descriptor, "--ic", 0.6, "--planner", "ft-search", "--json").stdout)["search"]
    assert story["prunings"].keys() == {"CPU", "COMPL", "COST", "DOM"}
    assert f"{story['nodes']} nodes" in search


def test_failure_model_option(descriptor):
    result = run(descriptor, "--ic", 0.6, "--failure", "node-crash")
    assert "IC 0.7500 under failure model node-crash for an SLA of 0.6" in result.stdout
    document = json.loads(run(descriptor, "--ic", 0.9, "--failure", "independent:0.05", "--json").stdout)
    assert document["failure"] == "independent:0.05" and document["internal_completeness"] >= 0.9
    assert "there is no failure model 'rain'; models are: pessimistic" in str(fails(descriptor, "--failure", "rain"))
    assert "nodes are: node1, node2" in str(fails(descriptor, "--failure", "node-crash:nowhere"))
    assert "a probability of failure is a number from 0 to 1" in str(fails(descriptor, "--failure", "independent:2"))


@pytest.mark.parametrize("replicas", [17, 1_000_000])
def test_too_many_replicas_are_an_error(tmp_path, replicas):
    text = str(fails(changed(tmp_path, replicas=replicas, placement=None)))
    assert "replicas (line" in text and f"wanted at most 16 replicas of each PE, got {replicas}" in text


def test_replicas_on_one_node_cause_a_warning(tmp_path):
    one = changed(tmp_path, nodes=nodes(1, 8), placement=None)
    text = (
        "all 2 replicas of pe1, pe2 are on node 'node1' and would be lost together, which the internal completeness does"
        " not account for: 1 node cannot hold 2 replicas apart; add nodes, or lower 'replicas'"
    )
    for planner in ("best", "sr"):
        assert f"warning: {text}" in run(one, "--ic", 1, "--planner", planner).stdout.splitlines()
        assert json.loads(run(one, "--ic", 1, "--planner", planner, "--json").stdout)["warnings"] == [text]
    three = changed(tmp_path, nodes=nodes(2, 8), replicas=3, placement=None)
    (first, second) = json.loads(run(three, "--ic", 1, "--json").stdout)["warnings"]
    assert first.startswith("2 of the 3 replicas of pe1 are on node 'node1' and would be lost together, which")
    assert second.startswith("2 of the 3 replicas of pe2 are on node 'node2' and would be lost together, which")
    (counted, _) = json.loads(run(three, "--ic", 0.5, "--failure", "node-crash", "--json").stdout)["warnings"]
    assert "lost together: 2 nodes cannot hold 3 replicas apart" in counted


def test_replicas_on_different_nodes_cause_no_warning(descriptor):
    assert "warning" not in run(descriptor, "--ic", 0.6).stdout
    assert json.loads(run(descriptor, "--ic", 0.6, "--json").stdout).get("warnings", []) == []


def test_nothing_to_buy_at_full_completeness(tmp_path):
    lines = run(changed(tmp_path, nodes=nodes(2, 8)), "--ic", 1).stdout.splitlines()
    assert lines[-1] == "next: nothing more to buy: IC is 1"


def test_fully_active_strategy_suggests_more_replicas(tmp_path):
    path = changed(tmp_path, nodes=nodes(2, 8))
    lines = run(path, "--ic", 0.94, "--failure", "independent:0.2").stdout.splitlines()
    assert lines[-1] == "next: every replica is active; more IC needs more replicas, or more nodes to spread them on"


def test_next_step_names_overloaded_nodes(descriptor):
    lines = run(descriptor, "--ic", 0.6).stdout.splitlines()
    (alone,) = [line for line in lines if line.startswith("pe1 in 'high'")]
    assert alone.endswith("all would add 0.1667 IC for 4.147e+05 CPU s, but node 'node2' cannot carry that")


def test_explanation_of_three_replicas(tmp_path):
    text = str(fails(changed(tmp_path, replicas=3, placement=None), "--ic", 0.9))
    assert "cannot carry all replicas of pe1" in text and "second" not in text


def test_infeasible_sla_under_failure_model_names_best_ic(descriptor, tmp_path):
    text = str(fails(descriptor, "--ic", 0.9, "--failure", "node-crash"))
    assert "meets an internal completeness of 0.9 under failure model node-crash: the best that can be met is 0.7500" in text
    assert "what blocks more: in configuration 'high' 'node1' (all replicas need 1.6 of 1 cores" in text
    alone = changed(tmp_path, nodes=nodes(1, 8), placement=None)
    text = str(fails(alone, "--ic", 0.1, "--failure", "node-crash"))
    assert "the best that can be met is 0.0000; what blocks more: even all replicas on nodes of any size would reach 0.0" in text
    assert "give more replicas or more nodes to spread them on" in text
    small = changed(tmp_path, nodes=nodes(1, 1), placement=None)
    assert "fits its nodes with any SLA: in configuration 'high' one" in str(fails(small, "--failure", "node-crash"))


def test_some_of_many_replicas_survive_a_failure_model(tmp_path):
    many = changed(tmp_path, replicas=16, placement=None)
    assert "IC 0.7500 under failure model node-crash for an SLA of 0.6" in run(many, "--failure", "node-crash").stdout
    text = str(fails(many, "--ic", 0.9, "--failure", "node-crash"))
    assert "the best found reaches 0.7500, and none exceeds 1.0000; what blocks more: in configuration" in text


def test_small_nodes_are_named_by_every_planner(tmp_path):
    small = changed(tmp_path, nodes=nodes(2, 0.5))
    blocks = "in configuration 'high' one replica of 'pe1' needs 0.8 cores, more than any of its nodes has"
    for planner in ("best", "nr", "all"):
        text = str(fails(small, "--planner", planner, "--seconds", 20))
        assert blocks in text and "add nodes or cores, or place replicas elsewhere" in text
    greedy = run(small, "--planner", "grd")
    assert greedy.exit_code == 0 and "breaks: node 'node1' is overloaded in configuration 'high'" in greedy.stdout


def test_violating_baseline_is_no_solution(descriptor):
    result = run(descriptor, "--ic", 0.6, "--planner", "all")
    shown = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if line.startswith(("nr ", "sr ", "grd "))}
    assert shown == {"nr": "breaks", "sr": "breaks", "grd": "SOL"}
    assert json.loads(run(descriptor, "--ic", 0.6, "--planner", "sr", "--json").stdout)["outcome"] == "breaks"


@pytest.mark.parametrize(
    "change",
    [
        {"rate": 1e308},
        {"rate": 1e303, "cost": 1e-304},
        {"cost": 1e305},
        {"cost": 1e305, "cores": 1e307},
        {"cores": 1e308},
        {"selectivity": 1e308},
    ],
)
@pytest.mark.parametrize("options", [[], ["--failure", "node-crash"], ["--planner", "grd"]])
def test_overflow_in_a_descriptor_is_one_error(tmp_path, change, options):
    edge = Input(selectivity=change.get("selectivity", 1), cost=change.get("cost", 0.1))
    rates = tuple(Rate(name=name, rate=change.get("rate", 4), probability=0.5) for name in ("low", "high"))
    path = changed(
        tmp_path,
        sources={"source": DescriptorSource(rates=rates)},
        pes={"pe1": Pe(inputs={"source": edge}), "pe2": Pe(inputs={"pe1": edge})},
        nodes=nodes(2, change.get("cores", 1)),
    )
    assert "rates of 'figure-1' grow beyond what can be counted; check the rates" in str(fails(path, *options))


def test_repeated_stream_of_a_sink_is_an_error(tmp_path):
    twice = changed(tmp_path, sinks={"sink": DescriptorSink(inputs=("pe2", "pe2"))})
    assert "sinks.sink.inputs (line" in (text := str(fails(twice))) and "names stream 'pe2' twice; give it once" in text
    source = figure_1().sources["source"]
    shared = changed(tmp_path, sources={"source": source, "pe1": source}, sinks={"sink": DescriptorSink(inputs=("pe3",))})
    assert "reads stream 'pe3', which does not exist; streams are: pe1, pe2, source" in str(fails(shared))


def test_json_contains_the_explanations(descriptor, tmp_path):
    out = tmp_path / "s.json"
    text = run(descriptor, "--ic", 0.6, "--out", out).stdout
    document = json.loads(out.read_text())
    for one in document["configurations"]:
        assert set(one["why"]) == {"pe1", "pe2"}
        assert all(f"{pe} in '{one['name']}': {why}\n" in text for pe, why in one["why"].items())
    assert f"next: {document['next']['why']}\n" in text
    assert "money" not in document


def test_contract_strategy_shows_money_and_next_step(tmp_path):
    path = tmp_path / "priced.yaml"
    contract = figure_1().contract.model_copy(update={"pricing": Pricing(fare=90000, cpu_second=0.01, penalty=5000)})
    write_document(path, figure_1().model_copy(update={"contract": contract}))
    result = run(path, "--by-contract")
    assert "\nnext: " in result.stdout, result.output
    document = json.loads(run(path, "--by-contract", "--json").stdout)
    money = document["money"]
    assert money["profit"] == pytest.approx(money["fare"] - money["running_cost"] - money["expected_penalty"])
    assert money["running_cost"] == pytest.approx(0.01 * document["cost"])
    assert (
        f"running cost {money['running_cost']:.6g}, expected penalty {money['expected_penalty']:.6g}, fare 90000" in result.stdout
    )
    assert document["next"]["why"] in result.stdout
    assert json.loads(run(path, "--ic", 0.6, "--json").stdout)["money"]["fare"] == 90000


@pytest.mark.parametrize("name", ["fare", "cpu_second", "penalty"])
@pytest.mark.parametrize("amount", ["1e-320", "1e308"])
def test_overflowing_price_is_an_error(tmp_path, name, amount):
    path = tmp_path / "priced.yaml"
    write_document(path, figure_1())
    text = path.read_text().replace(f"{name}: 0.0", f"{name}: {amount}")
    path.write_text(text)
    message = str(fails(path, "--by-contract"))
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"{name}:" in one)
    assert f"contract.pricing.{name} (line {line}): wanted 0 or an amount from 1e-60 to 1e+60" in message
    assert "too large or too small to compute with" in message


def test_sla_close_to_one_keeps_its_digits(descriptor):
    message = str(fails(descriptor, "--ic", 0.99999))
    assert "meets an internal completeness of 0.99999: the best that can be met is 0.6667" in message
