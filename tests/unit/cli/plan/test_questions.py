"""Questions about plans without planning anything."""

import json

import pytest

from .calls import fails, run


def test_fidelity_after_failures(topology, tmp_path):
    result = run("fidelity", topology, "--failed", "a/0", "--failed", "b/2")
    assert "lanes: 2 of 6 tasks have failed; output fidelity 0.3000 (information loss 0.7000)" in result.stdout
    whole = json.loads(run("fidelity", topology, "--failed", "a", "--json").stdout)
    assert whole["output_fidelity"] == 0 and whole["failed"] == ["a/0", "a/1", "a/2"]
    run(topology, "--budget", 2, "--out", tmp_path / "plan.json")
    planned = json.loads(run("fidelity", topology, "--with-plan", tmp_path / "plan.json", "--json").stdout)
    assert planned["output_fidelity"] == pytest.approx(0.5) and len(planned["failed"]) == 4
    assert "has no task or operator 'z/1'" in str(fails("fidelity", topology, "--failed", "z/1"))
    assert "not both" in str(fails("fidelity", topology))


def test_lookup_by_measured_rates(descriptor, tmp_path):
    strategy = tmp_path / "strategy.json"
    run(descriptor, "--ic", 0.6, "--out", strategy)
    assert "configuration 'low' (source 4)" in run("lookup", strategy, "--rate", "source=3").stdout
    between = json.loads(run("lookup", strategy, "--rate", "source=5", "--json").stdout)
    assert (between["configuration"], between["dominates"]) == ("high", True)
    above = run("lookup", strategy, "--rate", "source=9").stdout
    assert "source is 1 above the nearest configuration" in above
    assert "is looked up by the rates of source; got rates of market" in str(fails("lookup", strategy, "--rate", "market=1"))
    assert "--rate wants SOURCE=RATE" in str(fails("lookup", strategy, "--rate", "source=fast"))
    assert "is an application descriptor, not a strategy" in str(fails("lookup", descriptor, "--rate", "source=1"))


def test_help_lists_subcommands():
    assert all(word in run("--help").stdout for word in ("fidelity", "lookup"))
    assert "holdfast plan lookup strategy.json" in run("lookup", "--help").stdout


@pytest.mark.parametrize("task", ["a/00", "a/\u0663", "a/+1", "a/" + "9" * 5000, "a/"])
def test_misspelt_task_is_an_error(topology, tmp_path, task):
    plan = tmp_path / "p.json"
    plan.write_text(json.dumps({"topology": "lanes", "budget": 1, "replicated": [{"task": task}]}))
    assert "and there is no such task" in str(fails("fidelity", topology, "--with-plan", plan))
    plan.write_text(json.dumps({"topology": "lanes", "budget": 1, "parallelism": {"a": 3, "b": 3}, "replicated": [{"task": task}]}))
    assert "is not a task of the operators under 'parallelism'" in str(fails("fidelity", topology, "--with-plan", plan))


def test_lookup_accepts_rates_of_any_size(descriptor, tmp_path):
    out = tmp_path / "s.json"
    run(descriptor, "--ic", 0.6, "--out", out)
    result = run("lookup", out, "--rate", "source=1e200", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["configuration"] == "high"


def test_lookup_of_invalid_strategy_is_an_error(descriptor, tmp_path):
    out = tmp_path / "s.json"
    run(descriptor, "--ic", 0.6, "--out", out)
    document = json.loads(out.read_text())
    out.write_text(json.dumps({**document, "sla": 7, "internal_completeness": -3, "cost": -5}))
    message = str(fails("lookup", out, "--rate", "source=1"))
    assert "sla (line 1): wanted a number from 0 to 1, got 7" in message
    assert "internal_completeness (line 1): wanted a number from 0 to 1, got -3" in message
    assert "cost (line 1): wanted a number of at least 0, got -5" in message
    for one in document["configurations"]:
        one["rates"] = {}
    out.write_text(json.dumps(document))
    assert "is empty; a strategy is looked up by the rate of at least one source" in str(fails("lookup", out, "--rate", "source=1"))
