"""holdfast plan: documents in, plans out."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.plan import plan
from holdfast.errors import DocumentError, HoldfastError
from holdfast.model.descriptor import Pricing
from holdfast.model.document import read_document, write_document
from holdfast.model.topology import TaskOperator, Topology
from holdfast.plan.laar import Strategy
from holdfast.plan.laar.examples import figure_1
from holdfast.plan.ppa.document import PlanDocument


@pytest.fixture
def topology(tmp_path) -> Path:
    path = tmp_path / "t.yaml"
    document = Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
        },
    )
    write_document(path, document)
    return path


@pytest.fixture
def descriptor(tmp_path) -> Path:
    path = tmp_path / "d.yaml"
    write_document(path, figure_1())
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(plan, [str(argument) for argument in arguments])


def fails(*arguments: object) -> HoldfastError:
    result = run(*arguments)
    assert isinstance(result.exception, HoldfastError), result.output
    return result.exception


def test_a_topology_is_planned_and_explained(topology):
    result = run(topology, "--budget", 2)
    assert result.exit_code == 0, result.output
    assert "lanes: 2 of at most 2 replicas by frontier; output fidelity 0.500" in result.stdout
    assert "no plan is better" in result.stdout
    assert "a/0: without a/0 output fidelity would fall from 0.500 to 0.000; it feeds b/0" in result.stdout
    assert "next: one more replica buys nothing by itself; 2 more buy output fidelity +0.300" in result.stdout


def test_json_is_one_document_and_everything_else_goes_to_stderr(topology, tmp_path):
    result = run(topology, "--budget", 4, "--json", "--plot", tmp_path / "p.svg", "--out", tmp_path / "plan.json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [r["task"] for r in document["replicated"]] == ["a/0", "a/1", "b/0", "b/1"]
    assert document["quality"] == pytest.approx(0.8) == document["bound"]
    assert "drew" in result.stderr
    assert read_document(tmp_path / "plan.json", PlanDocument).tasks == ("a/0", "a/1", "b/0", "b/1")
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_all_planners_are_compared_and_the_best_plan_is_kept(topology, tmp_path):
    result = run(topology, "--budget", 3, "--planner", "all", "--json", "--out", tmp_path / "plan.json")
    plans = {p["planner"]: p["quality"] for p in json.loads(result.stdout)["plans"]}
    assert plans.keys() == {"frontier", "structure-aware", "structured", "full", "greedy", "dynamic"}
    assert read_document(tmp_path / "plan.json", PlanDocument).quality == pytest.approx(max(plans.values()))


def test_completeness_asked_for_is_reached_with_as_few_replicas_as_do(topology):
    document = json.loads(run(topology, "--ic", 0.5, "--json").stdout)
    assert (document["objective"], document["budget"]) == ("ic", 2)
    assert document["quality"] >= 0.5
    one_less = json.loads(run(topology, "--budget", 1, "--objective", "ic", "--json").stdout)
    assert one_less["quality"] < 0.5


def test_measured_criticality_decides_what_is_worth_a_replica(tmp_path, topology):
    impact = tmp_path / "impact.yaml"
    impact.write_text("impact: {a: 1, b: 0}\n")
    document = json.loads(run(topology, "--budget", 2, "--criticality", impact, "--json").stdout)
    assert document["objective"] == "criticality"
    assert [r["task"] for r in document["replicated"]] == ["a/0", "a/1"]


def test_a_current_plan_is_kept_to_unless_moving_is_worth_it(topology, tmp_path):
    current = tmp_path / "current.json"
    current.write_text('{"topology": "lanes", "budget": 2, "replicated": [{"task": "a/1"}, {"task": "b/1"}]}')
    stays = run(topology, "--budget", 2, "--current", current, "--move-worth", 0.2)
    assert "stop: none\nstart: none" in stays.stdout
    moves = json.loads(run(topology, "--budget", 2, "--current", current, "--json").stdout)
    assert moves["changes"]["stop"] == ["a/1", "b/1"]
    assert moves["changes"]["start"] == ["a/0", "b/0"]
    other = tmp_path / "other.json"
    other.write_text('{"topology": "else", "budget": 2, "replicated": []}')
    assert "is a plan of topology 'else', not of 'lanes'" in str(fails(topology, "--budget", 2, "--current", other))


def test_a_descriptor_is_planned_into_a_strategy(descriptor, tmp_path):
    out = tmp_path / "strategy.json"
    result = run(descriptor, "--ic", 0.6, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["internal_completeness"] >= 0.6
    assert read_document(out, Strategy).application == figure_1().application


def test_solvers_and_baselines_of_a_descriptor_are_compared_and_drawn(descriptor, tmp_path):
    result = run(descriptor, "--ic", 0.6, "--planner", "all", "--plot", tmp_path / "cost.png")
    assert result.exit_code == 0, result.output
    assert all(f"\n{name} " in result.stdout for name in ("nr", "sr", "grd"))
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "topology 'lanes' wants either --budget N or --ic X"),
        (["--budget", 7], "budget 7 does not fit topology 'lanes': it has 6 tasks"),
        (["--budget", 2, "--planner", "magic"], "there is no planner 'magic' of topologies; planners are: frontier,"),
        (["--ic", 1.5], "--ic wants a number from 0 to 1, got 1.5"),
        (["--ic", 0.5, "--objective", "of"], "--ic asks for internal completeness, --objective for of"),
        (["--budget", 2, "--objective", "criticality"], "wants --criticality FILE"),
        (["--budget", 2, "--seconds", "nan"], "--seconds wants a number above 0, got nan"),
        (["--budget", 2, "--move-worth", "nan"], "--move-worth wants a number from 0 to 1, got nan"),
        (["--budget", 2, "--plot", "p.bmp"], "wants a suffix of .svg, .png, .pdf"),
    ],
)
def test_mistakes_in_options_are_told_in_words(topology, arguments, text):
    assert text in str(fails(topology, *arguments))


def test_options_of_topologies_are_refused_for_descriptors(descriptor):
    assert "--budget: for task topologies only" in str(fails(descriptor, "--budget", 3))
    assert "there is no solver 'magic' of descriptors" in str(fails(descriptor, "--planner", "magic"))


def test_a_document_that_is_neither_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("something: else\n")
    error = fails(path, "--budget", 1)
    assert isinstance(error, DocumentError)
    assert "is neither a task topology (field 'topology') nor an application descriptor" in str(error)


def test_what_the_command_made_is_no_document_to_plan_for(topology, descriptor, tmp_path):
    run(topology, "--budget", 2, "--out", tmp_path / "plan.json")
    run(descriptor, "--ic", 0.6, "--out", tmp_path / "strategy.json")
    assert "is a plan, which is what this command makes; give the task topology" in str(
        fails(tmp_path / "plan.json", "--budget", 2)
    )
    assert "is a strategy, which is what this command makes" in str(fails(tmp_path / "strategy.json"))


def test_a_comparison_says_which_strategies_hosts_cannot_carry(descriptor):
    lines = run(descriptor, "--ic", 0.6, "--planner", "all").stdout.splitlines()
    assert next(line for line in lines if line.startswith("sr ")).endswith("are overloaded")
    assert next(line for line in lines if line.startswith("grd ")).endswith("carry it")


def test_an_assessments_report_for_other_operators_is_refused_by_name(topology, tmp_path):
    path = tmp_path / "impact.yaml"
    path.write_text("impact: {a: 1, c: 1}\n")
    text = str(fails(topology, "--budget", 2, "--criticality", path))
    assert f"{path} has 2 problems" in text
    assert "gives no quality impact of operator 'b' of topology 'lanes'" in text
    assert "impact.c (line 1): 'c' is no operator of topology 'lanes'; operators are: a, b" in text


def priced(tmp_path: Path, *, penalty: float) -> Path:
    path = tmp_path / "priced.yaml"
    bare = figure_1(sla=0.6)
    pricing = Pricing(fare=90_000, cpu_second=0.01, penalty=penalty)
    write_document(path, bare.model_copy(update={"contract": bare.contract.model_copy(update={"pricing": pricing})}))
    return path


@pytest.mark.parametrize(
    ("penalty", "says"),
    [
        (1_000, "IC 0.0000 breaks the SLA of 0.6: running cost plus expected penalty is 25883.2 (no strategy has less)"),
        (50_000, "IC 0.6667 keeps the SLA of 0.6: running cost plus expected penalty is 41472 (no strategy has less)"),
    ],
)
def test_a_contract_decides_whether_keeping_the_sla_is_worth_it(tmp_path, penalty, says):
    result = run(priced(tmp_path, penalty=penalty), "--by-contract")
    assert result.exit_code == 0, result.output
    assert says in result.stdout
    assert "contract: running cost " in result.stdout and "profit " in result.stdout


def test_a_contract_without_prices_or_of_a_topology_is_refused(descriptor, topology):
    assert "--by-contract wants prices" in str(fails(descriptor, "--by-contract"))
    assert "cannot go with --planner milp" in str(fails(descriptor, "--by-contract", "--planner", "milp"))
    assert "--by-contract: for application descriptors only" in str(fails(topology, "--budget", 2, "--by-contract"))


def test_help_has_an_example():
    assert "holdfast plan topology.yaml --budget 12 --out plan.json" in run("--help").stdout
