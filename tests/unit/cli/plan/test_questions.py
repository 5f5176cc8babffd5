"""Questions about plans without planning anything, and documents that are generated."""

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


def test_trees_are_counted_and_listed(topology):
    assert run("trees", topology).stdout == "lanes: 3 minimal complete trees\n"
    listed = run("trees", topology, "--list", 2).stdout
    assert listed == "lanes: 3 minimal complete trees\n  a/0, b/0\n  a/1, b/1\n  and 1 more\n"
    assert json.loads(run("trees", topology, "--list", 9, "--json").stdout)["listed"][-1] == ["a/2", "b/2"]


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


@pytest.mark.parametrize(("kind", "option"), [("topology", ["--budget", 3]), ("application", ["--ic", 0.1])])
def test_generated_documents_depend_on_the_seed(tmp_path, kind, option):
    small = ["--set", "nodes=2", "--set", "pes_per_node=2"] if kind == "application" else ["--set", "parallelism=1:4"]
    first, again, folder = tmp_path / "1.yaml", tmp_path / "2.yaml", tmp_path / "corpus"
    for out in (first, again):
        assert run("generate", kind, "--seed", 7, *small, "--out", out).exit_code == 0
    assert first.read_text() == again.read_text()
    assert run(first, *option).exit_code == 0
    assert run("generate", kind, "--seed", 7, "--count", 3, *small, "--out", folder).exit_code == 0
    assert [path.name for path in sorted(folder.iterdir())] == [f"{kind}000{n}.yaml" for n in range(3)]
    assert (folder / f"{kind}0000.yaml").read_text() == first.read_text()
    assert "exists already; give another --out, or --force" in str(fails("generate", kind, "--out", first))


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("colour=red", "--set knows no 'colour'; names and their defaults are: operators=5:10"),
        ("zipf=steep", "--set zipf wants a value such as 0, got 'steep'"),
        ("parallelism=9:3", "range 'parallelism' wants 1 <= low <= high, got 9 to 3"),
        ("kind=odd", "'kind' wants one of general, structured, full, got 'odd'"),
        ("zipf=nan", "wanted zipf >= 0"),
    ],
)
def test_generator_settings_are_checked(tmp_path, setting, text):
    assert text in str(fails("generate", "topology", "--set", setting, "--out", tmp_path / "t.yaml"))


def test_help_lists_subcommands():
    assert all(word in run("--help").stdout for word in ("fidelity", "generate", "lookup", "trees"))
    assert "holdfast plan trees topology.yaml --list 10" in run("trees", "--help").stdout


def test_all_wrong_generator_settings_are_reported(tmp_path):
    wrong = ("colour=red", "size=9", "zipf=steep", "parallelism=9:3", "joins=2", "rate=1", "rate=2")
    settings = [word for setting in wrong for word in ("--set", setting)]
    text = str(fails("generate", "topology", *settings, "--out", tmp_path / "t.yaml"))
    for part in (
        "what --set gives has 5 errors",
        "--set knows no 'colour', 'size'; names",
        "--set zipf wants a value such as 0, got 'steep'",
        "range 'parallelism' wants 1 <= low <= high, got 9 to 3",
        "share 'joins' must lie between 0 and 1, got 2",
        "--set gives 'rate' twice",
    ):
        assert part in text
    many = fails("generate", "application", "--set", "replicas=17", "--set", "source_rate=0:1", "--out", tmp_path / "a.yaml")
    assert "'replicas' wants at most 16, got 17" in str(many) and "range 'source_rate' wants 0 < low" in str(many)


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


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        ("application", "cost=1e-320", "range 'cost' wants numbers from 1e-09 to 1e+09"),
        ("application", "selectivity=1e300", "range 'selectivity' wants numbers from 1e-09 to 1e+09"),
        ("application", "source_rate=1e307:1e308", "range 'source_rate' wants numbers from 1e-09 to 1e+09"),
        (
            "application",
            "selectivity=1e9 out_degree=20 nodes=12 pes_per_node=12",
            "give a range 'selectivity' nearer to 1, fewer PEs or a smaller 'out_degree'",
        ),
        ("topology", "rate=1e308", "'rate' wants 0 or a number from 1e-09 to 1e+09, got 1e+308"),
    ],
)
def test_unplannable_documents_are_not_generated(tmp_path, kind, setting, message):
    out = tmp_path / "made"
    settings = [word for one in setting.split() for word in ("--set", one)]
    assert message in str(fails("generate", kind, *settings, "--count", 3, "--out", out))
    assert not out.exists()


@pytest.mark.parametrize("setting", ["selectivity=1e-9", "cost=1e-9", "source_rate=1e-9:1e9", "selectivity=3:30"])
def test_generated_documents_can_be_planned(tmp_path, setting):
    out = tmp_path / "made.yaml"
    made = run("generate", "application", "--set", setting, "--set", "nodes=2", "--set", "pes_per_node=3", "--out", out)
    assert made.exit_code == 0, made.output
    assert run(out, "--ic", 0, "--planner", "sr").exit_code == 0
