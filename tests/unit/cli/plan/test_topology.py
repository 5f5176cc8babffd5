"""Topologies are planned task by task."""

import json

import pytest

from holdfast.documents.document import read_document
from holdfast.errors import HoldfastError
from holdfast.planning.ppa.plan_document import PlanDocument

from .calls import fails, run


def test_topology_is_planned_and_explained(topology):
    result = run(topology, "--budget", 2)
    assert result.exit_code == 0, result.output
    assert "lanes: 2 of at most 2 replicas by frontier; output fidelity 0.500" in result.stdout
    assert "no plan is better" in result.stdout
    assert "a/0: without a/0 output fidelity would fall from 0.500 to 0.000; it feeds b/0" in result.stdout
    assert "next: one more replica buys nothing by itself; 2 more buy output fidelity +0.300" in result.stdout


def test_all_planners_are_compared(topology, tmp_path, papers_installed):
    result = run(topology, "--budget", 3, "--planner", "all", "--json", "--out", tmp_path / "plan.json")
    plans = {p["planner"]: p["quality"] for p in json.loads(result.stdout)["plans"]}
    assert plans.keys() == {"frontier", "structure-aware", "structured", "full", "greedy", "dynamic"}
    assert read_document(tmp_path / "plan.json", PlanDocument).quality == pytest.approx(max(plans.values()))


def test_ic_option_uses_fewest_replicas(topology):
    document = json.loads(run(topology, "--ic", 0.5, "--json").stdout)
    assert (document["objective"], document["budget"]) == ("ic", 2)
    assert document["quality"] >= 0.5
    one_less = json.loads(run(topology, "--budget", 1, "--objective", "ic", "--json").stdout)
    assert one_less["quality"] < 0.5


def test_criticality_option_changes_the_plan(tmp_path, topology):
    impact = tmp_path / "impact.yaml"
    impact.write_text("impact: {a: 1, b: 0}\n")
    document = json.loads(run(topology, "--budget", 2, "--criticality", impact, "--json").stdout)
    assert document["objective"] == "criticality"
    assert [r["task"] for r in document["replicated"]] == ["a/0", "a/1"]


def test_current_plan_stays_unless_moving_pays(topology, tmp_path):
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
        (["--budget", 2, "--plot", "p.bmp"], "--plot 'p.bmp' wants the suffix .svg, got '.bmp'"),
    ],
)
def test_wrong_options_are_errors(topology, arguments, text):
    assert text in str(fails(topology, *arguments))


def test_report_for_other_operators_is_an_error(topology, tmp_path):
    path = tmp_path / "impact.yaml"
    path.write_text("impact: {a: 1, c: 1}\n")
    text = str(fails(topology, "--budget", 2, "--criticality", path))
    assert f"{path} has 2 errors" in text
    assert "gives no quality impact of operator 'b' of topology 'lanes'" in text
    assert "impact.c (line 1): 'c' is not an operator of topology 'lanes'; operators are: a, b" in text


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--seconds", 5], "--seconds: for application descriptors only"),
        (["--failure", "node-crash"], "--failure: for application descriptors only"),
        (["--move-worth", 0.1], "--move-worth: requires --current PLAN"),
        (["--ic", 0.5], "--budget limits the replicas, and --ic asks for the fewest replicas"),
    ],
)
def test_option_without_effect_is_an_error(topology, option, text):
    assert text in str(fails(topology, "--budget", 2, *option))


def test_source_without_tuples_can_be_planned(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("topology: t\noperators: {a: {parallelism: 2, rate: 0}, b: {inputs: {a: full}}}\n")
    result = run(path, "--budget", 2)
    assert result.exit_code == 0, result.output
    assert "output fidelity 0.500" in result.stdout


@pytest.mark.parametrize("given", ["rate: 1.0e+308", "rates: [1.0e+308, 1.0e+308]", "rate: 1, shares: [1.0e+308, 1.0e+308]"])
def test_overflow_in_a_topology_is_one_error(tmp_path, given):
    path = tmp_path / "large.yaml"
    path.write_text(f"topology: t\noperators:\n  a: {{parallelism: 2, {given}}}\n  b: {{inputs: {{a: full}}, selectivity: 10}}\n")
    text = str(fails(path, "--budget", 1))
    assert "grow beyond what can be counted" in text or "a.shares (line 3): wanted shares with a finite sum" in text


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_impossible_budget_is_reported_once_for_all_planners(topology, more):
    result = run(topology, "--budget", 100, "--planner", "all", *more)
    assert "give a budget from 0 to 6" in str(result.exception) and isinstance(result.exception, HoldfastError)
    assert result.output == ""


def test_mismatched_current_plan_is_reported_once(topology, tmp_path):
    (tmp_path / "p.yaml").write_text("topology: roads\nbudget: 1\nreplicated: [{task: a/0}]\n")
    result = run(topology, "--budget", 2, "--planner", "all", "--current", tmp_path / "p.yaml")
    assert "is a plan of topology 'roads', not of 'lanes'" in str(result.exception)
    assert result.output == ""


def test_only_ratios_of_impacts_matter(topology, tmp_path):
    plans = []
    for text in ("{a: 1, b: 1}", "{a: 1.0e+308, b: 1.0e+308}"):
        (tmp_path / "impact.yaml").write_text(f"impact: {text}\n")
        plans.append(json.loads(run(topology, "--budget", 2, "--criticality", tmp_path / "impact.yaml", "--json").stdout))
    assert plans[0] == plans[1]


def test_operator_name_with_slash_is_an_error(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("topology: t\noperators:\n  a: {parallelism: 2, rate: 1}\n  a/0: {parallelism: 2, inputs: {a: one-to-one}}\n")
    assert "operators.a/0 (line 4): wanted a name without '/'" in str(fails(path, "--budget", 1))
