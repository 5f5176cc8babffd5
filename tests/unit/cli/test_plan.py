"""holdfast plan: documents in, plans out."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.plan import plan
from holdfast.cli.plan_output import write_output
from holdfast.errors import DocumentError, HoldfastError
from holdfast.model.descriptor import Host, Input, Pe, Pricing, Rate, Sink, Source
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


@pytest.mark.parametrize("name", ["nr", "sr", "grd"])
def test_a_baseline_says_what_it_promises_costs_and_breaks(descriptor, name):
    result = run(descriptor, "--ic", 0.6, "--planner", name)
    assert result.exit_code == 0, result.output
    assert f"(baseline {name.upper()}, which does not go by the SLA)" in result.stdout.splitlines()[0]
    said = {
        "nr": "breaks: internal completeness is 0.0000, the SLA wants 0.6",
        "sr": "breaks: host 'host1' is overloaded in configuration 'high': load 1.6, capacity 1",
        "grd": "breaks nothing: hosts carry it, and the SLA is met",
    }
    assert said[name] in result.stdout
    breaks = json.loads(run(descriptor, "--ic", 0.6, "--planner", name, "--json").stdout).get("breaks")
    assert [f"breaks: {text}" for text in breaks] == [line for line in result.stdout.splitlines() if line.startswith("breaks: ")]


def test_all_solvers_are_compared_and_one_that_refuses_is_told_apart(tmp_path):
    path = tmp_path / "d.yaml"
    write_document(path, figure_1())
    strategies = json.loads(run(path, "--ic", 0.6, "--planner", "all", "--json").stdout)["strategies"]
    assert [one["solver"] for one in strategies] == ["best (ft-search)", "ft-search", "milp", "exhaustive", "nr", "sr", "grd"]
    assert len({round(one["cost"]) for one in strategies[:4]}) == 1
    large = tmp_path / "large.yaml"
    run("generate", "application", "--set", "hosts=2", "--set", "pes_per_host=4", "--seed", 3, "--out", large)
    result = run(large, "--ic", 0.5, "--planner", "all")
    assert "exhaustive: 'app0000' has 4.3e+07 strategies" in result.stderr
    assert "\nmilp " in result.stdout and "\nexhaustive " not in result.stdout


def test_where_no_strategy_meets_the_sla_the_baselines_are_compared_before_the_error(descriptor):
    result = run(descriptor, "--ic", 0.9, "--planner", "all")
    assert "the best that can be met is 0.6667" in str(result.exception)
    assert all(f"\n{name} " in result.stderr for name in ("nr", "sr", "grd"))
    assert result.stdout == ""


def test_prunings_and_their_heights_are_told_in_words_and_in_json(descriptor):
    lines = run(descriptor, "--ic", 0.6, "--planner", "ft-search").stdout.splitlines()
    (search,) = [line for line in lines if line.startswith("search: ")]
    assert all(f"{rule} " in search for rule in ("CPU", "COMPL", "COST", "DOM")) and "mean height" in search
    assert any(line.startswith("first solution: ") for line in lines)
    story = json.loads(run(descriptor, "--ic", 0.6, "--planner", "ft-search", "--json").stdout)["search"]
    assert story["prunings"].keys() == {"CPU", "COMPL", "COST", "DOM"}
    assert f"{story['nodes']} nodes" in search


def test_a_failure_model_can_be_chosen(descriptor):
    result = run(descriptor, "--ic", 0.6, "--failure", "host-crash")
    assert "IC 0.7500 under failure model host-crash for an SLA of 0.6" in result.stdout
    document = json.loads(run(descriptor, "--ic", 0.9, "--failure", "independent:0.05", "--json").stdout)
    assert document["failure"] == "independent:0.05" and document["internal_completeness"] >= 0.9
    assert "there is no failure model 'rain'; models are: pessimistic" in str(fails(descriptor, "--failure", "rain"))
    assert "hosts are: host1, host2" in str(fails(descriptor, "--failure", "host-crash:nowhere"))
    assert "a probability of failure is a number from 0 to 1" in str(fails(descriptor, "--failure", "independent:2"))


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--seconds", 5], "--seconds: for application descriptors only"),
        (["--failure", "host-crash"], "--failure: for application descriptors only"),
        (["--move-worth", 0.1], "--move-worth: says what a move away from --current PLAN must bring"),
        (["--ic", 0.5], "--budget says how many replicas there may be, --ic how complete the output must be"),
    ],
)
def test_an_option_without_effect_is_refused(topology, option, text):
    assert text in str(fails(topology, "--budget", 2, *option))


def test_output_is_refused_before_planning_by_the_name_that_was_given(topology, tmp_path):
    drawn = tmp_path / "picture.svg"
    drawn.write_text("a picture")
    for out, text in (
        (tmp_path, "is a directory; give the name of a file"),
        (drawn, "wants a suffix of .json, .yaml, .yml; got '.svg'"),
        (tmp_path / "plan", "wants a suffix of .json, .yaml, .yml; got ''"),
        (drawn / "plan.json", "is no folder; give another name"),
        (topology, "is the document to plan for; give another name"),
    ):
        assert f"--out '{out}' " in str(fails(topology, "--budget", 2, "--out", out))
        assert text in str(fails(topology, "--budget", 2, "--out", out))
    assert drawn.read_text() == "a picture"


def test_what_the_system_refuses_is_told_of_the_name_that_was_given(tmp_path):
    out = Path("/proc/plan.json")  # a folder that takes no files, not even from root
    with pytest.raises(HoldfastError) as caught:
        write_output(out, figure_1())
    assert "--out '/proc/plan.json' cannot be written: " in str(caught.value)
    assert ".tmp" not in str(caught.value)


def test_a_name_with_a_formula_or_a_face_can_be_drawn(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(f"topology: 'a$b^$ {chr(0x1F600)}'\noperators: {{a: {{parallelism: 2, rate: 1}}}}\n")
    result = run(path, "--budget", 1, "--plot", tmp_path / "p.png")
    assert result.exit_code == 0, result.output
    assert "Glyph" not in result.stderr


def test_a_source_without_tuples_is_planned_for_all_the_same(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("topology: t\noperators: {a: {parallelism: 2, rate: 0}, b: {inputs: {a: full}}}\n")
    result = run(path, "--budget", 2)
    assert result.exit_code == 0, result.output
    assert "output fidelity 0.500" in result.stdout


def test_what_a_loss_costs_can_be_asked(topology, tmp_path):
    result = run("fidelity", topology, "--failed", "a/0", "--failed", "b/2")
    assert "lanes: 2 of 6 tasks have failed; output fidelity 0.3000 (information loss 0.7000)" in result.stdout
    whole = json.loads(run("fidelity", topology, "--failed", "a", "--json").stdout)
    assert whole["output_fidelity"] == 0 and whole["failed"] == ["a/0", "a/1", "a/2"]
    run(topology, "--budget", 2, "--out", tmp_path / "plan.json")
    planned = json.loads(run("fidelity", topology, "--with-plan", tmp_path / "plan.json", "--json").stdout)
    assert planned["output_fidelity"] == pytest.approx(0.5) and len(planned["failed"]) == 4
    assert "has no task or operator 'z/1'" in str(fails("fidelity", topology, "--failed", "z/1"))
    assert "and not both" in str(fails("fidelity", topology))


def test_trees_are_counted_and_listed_on_demand(topology):
    assert run("trees", topology).stdout == "lanes: 3 minimal complete trees\n"
    listed = run("trees", topology, "--list", 2).stdout
    assert listed == "lanes: 3 minimal complete trees\n  a/0, b/0\n  a/1, b/1\n  and 1 more\n"
    assert json.loads(run("trees", topology, "--list", 9, "--json").stdout)["listed"][-1] == ["a/2", "b/2"]


def test_a_strategy_is_looked_up_by_measured_rates(descriptor, tmp_path):
    strategy = tmp_path / "strategy.json"
    run(descriptor, "--ic", 0.6, "--out", strategy)
    assert "configuration 'low' (source 4)" in run("lookup", strategy, "--rate", "source=3").stdout
    between = json.loads(run("lookup", strategy, "--rate", "source=5", "--json").stdout)
    assert (between["configuration"], between["dominates"]) == ("high", True)
    above = run("lookup", strategy, "--rate", "source=9").stdout
    assert "source is 1 above every configuration that comes close" in above
    assert "is looked up by the rates of source; got rates of market" in str(fails("lookup", strategy, "--rate", "market=1"))
    assert "--rate wants SOURCE=RATE" in str(fails("lookup", strategy, "--rate", "source=fast"))
    assert "is an application descriptor, not a strategy" in str(fails("lookup", descriptor, "--rate", "source=1"))


@pytest.mark.parametrize(("kind", "option"), [("topology", ["--budget", 3]), ("application", ["--ic", 0.1])])
def test_generated_documents_are_the_same_for_a_seed_and_can_be_planned(tmp_path, kind, option):
    small = ["--set", "hosts=2", "--set", "pes_per_host=2"] if kind == "application" else ["--set", "parallelism=1:4"]
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
        ("colour=red", "--set knows no 'colour'; names and what they are unless set: operators=5:10"),
        ("zipf=steep", "--set zipf wants a value such as 0, got 'steep'"),
        ("parallelism=9:3", "range 'parallelism' wants 1 <= low <= high, got 9 to 3"),
        ("kind=odd", "'kind' wants one of general, structured, full, got 'odd'"),
        ("zipf=nan", "wanted zipf >= 0"),
    ],
)
def test_settings_of_a_generator_are_checked(tmp_path, setting, text):
    assert text in str(fails("generate", "topology", "--set", setting, "--out", tmp_path / "t.yaml"))


def test_help_names_what_can_stand_in_place_of_a_document():
    assert all(word in run("--help").stdout for word in ("fidelity", "generate", "lookup", "trees"))
    assert "holdfast plan trees topology.yaml --list 10" in run("trees", "--help").stdout


def changed(tmp_path: Path, **fields: object) -> Path:
    """The paper's example with other fields, as a file."""
    path = tmp_path / "changed.yaml"
    write_document(path, type(figure_1()).model_construct(**{**dict(figure_1()), **fields}))
    return path


@pytest.mark.parametrize("replicas", [17, 1_000_000])
def test_more_replicas_than_can_be_planned_are_refused_at_once(tmp_path, replicas):
    text = str(fails(changed(tmp_path, replicas=replicas, placement=None)))
    assert "replicas (line" in text and f"wanted at most 16 replicas of each PE, got {replicas}" in text


def hosts(count: int, cores: float) -> dict[str, Host]:
    return {f"host{n + 1}": Host(cores=cores) for n in range(count)}


def test_replicas_that_share_a_host_are_warned_of_in_words_and_in_json(tmp_path):
    one = changed(tmp_path, hosts=hosts(1, 8), placement=None)
    text = (
        "all 2 replicas of pe1, pe2 are on host 'host1' and would be lost together, which the internal completeness told here"
        " does not count: 1 host cannot hold 2 replicas apart; add hosts, or lower 'replicas'"
    )
    for planner in ("best", "sr"):
        assert f"warning: {text}" in run(one, "--ic", 1, "--planner", planner).stdout.splitlines()
        assert json.loads(run(one, "--ic", 1, "--planner", planner, "--json").stdout)["warnings"] == [text]
    three = changed(tmp_path, hosts=hosts(2, 8), replicas=3, placement=None)
    (first, second) = json.loads(run(three, "--ic", 1, "--json").stdout)["warnings"]
    assert first.startswith("2 of the 3 replicas of pe1 are on host 'host1' and would be lost together, which")
    assert second.startswith("2 of the 3 replicas of pe2 are on host 'host2' and would be lost together, which")
    (counted, _) = json.loads(run(three, "--ic", 0.5, "--failure", "host-crash", "--json").stdout)["warnings"]
    assert "lost together: 2 hosts cannot hold 3 replicas apart" in counted


def test_replicas_apart_are_not_warned_of(descriptor):
    assert "warning" not in run(descriptor, "--ic", 0.6).stdout
    assert json.loads(run(descriptor, "--ic", 0.6, "--json").stdout).get("warnings", []) == []


def test_at_full_completeness_there_is_nothing_more_to_buy(tmp_path):
    lines = run(changed(tmp_path, hosts=hosts(2, 8)), "--ic", 1).stdout.splitlines()
    assert lines[-1] == "next: nothing more to buy: IC is 1"


def test_where_every_replica_is_active_and_tuples_are_lost_more_replicas_are_asked_for(tmp_path):
    path = changed(tmp_path, hosts=hosts(2, 8))
    lines = run(path, "--ic", 0.94, "--failure", "independent:0.2").stdout.splitlines()
    assert lines[-1] == "next: every replica is active; more IC needs more replicas, or more hosts to spread them on"


def test_what_hosts_cannot_carry_is_not_offered_without_saying_so(descriptor):
    lines = run(descriptor, "--ic", 0.6).stdout.splitlines()
    (alone,) = [line for line in lines if line.startswith("pe1 in 'high'")]
    assert alone.endswith("all would bring 0.1667 IC for 4.147e+05 CPU s, but host 'host2' cannot carry that")


def test_three_replicas_are_not_called_second_ones(tmp_path):
    text = str(fails(changed(tmp_path, replicas=3, placement=None), "--ic", 0.9))
    assert "cannot carry all replicas of pe1" in text and "second" not in text


def test_an_sla_out_of_reach_under_a_failure_model_says_the_best_and_what_blocks_more(descriptor, tmp_path):
    text = str(fails(descriptor, "--ic", 0.9, "--failure", "host-crash"))
    assert "meets an internal completeness of 0.9 under failure model host-crash: the best that can be met is 0.7500" in text
    assert "what blocks more: in configuration 'high' 'host1' (all replicas need 1.6 of 1 cores" in text
    alone = changed(tmp_path, hosts=hosts(1, 8), placement=None)
    text = str(fails(alone, "--ic", 0.1, "--failure", "host-crash"))
    assert "the best that can be met is 0.0000; what blocks more: even all replicas on hosts of any size would reach 0.0" in text
    assert "give more replicas or more hosts to spread them on" in text
    small = changed(tmp_path, hosts=hosts(1, 1), placement=None)
    assert "fits its hosts, whatever the SLA: in configuration 'high' one" in str(fails(small, "--failure", "host-crash"))


def test_a_failure_model_is_outlasted_by_some_of_many_replicas(tmp_path):
    many = changed(tmp_path, replicas=16, placement=None)
    assert "IC 0.7500 under failure model host-crash for an SLA of 0.6" in run(many, "--failure", "host-crash").stdout
    text = str(fails(many, "--ic", 0.9, "--failure", "host-crash"))
    assert "the best found reaches 0.7500, and none exceeds 1.0000; what blocks more: in configuration" in text


def test_hosts_too_small_for_one_replica_are_named_whatever_the_planner(tmp_path):
    small = changed(tmp_path, hosts=hosts(2, 0.5))
    blocks = "in configuration 'high' one replica of 'pe1' needs 0.8 cores, more than any of its hosts has"
    for planner in ("best", "nr", "all"):
        text = str(fails(small, "--planner", planner, "--seconds", 20))
        assert blocks in text and "add hosts or cores, or place replicas elsewhere" in text
    greedy = run(small, "--planner", "grd")
    assert greedy.exit_code == 0 and "breaks: host 'host1' is overloaded in configuration 'high'" in greedy.stdout


def test_a_baseline_that_breaks_something_is_no_solution(descriptor):
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
@pytest.mark.parametrize("options", [[], ["--failure", "host-crash"], ["--planner", "grd"]])
def test_numbers_too_large_to_count_with_are_told_in_one_sentence(tmp_path, change, options):
    edge = Input(selectivity=change.get("selectivity", 1), cost=change.get("cost", 0.1))
    rates = tuple(Rate(name=name, rate=change.get("rate", 4), probability=0.5) for name in ("low", "high"))
    path = changed(
        tmp_path,
        sources={"source": Source(rates=rates)},
        pes={"pe1": Pe(inputs={"source": edge}), "pe2": Pe(inputs={"pe1": edge})},
        hosts=hosts(2, change.get("cores", 1)),
    )
    assert "rates of 'figure-1' grow beyond what can be counted; check the rates" in str(fails(path, *options))


@pytest.mark.parametrize("given", ["rate: 1.0e+308", "rates: [1.0e+308, 1.0e+308]", "rate: 1, shares: [1.0e+308, 1.0e+308]"])
def test_numbers_too_large_to_count_with_in_a_topology_are_told_in_one_sentence(tmp_path, given):
    path = tmp_path / "large.yaml"
    path.write_text(f"topology: t\noperators:\n  a: {{parallelism: 2, {given}}}\n  b: {{inputs: {{a: full}}, selectivity: 10}}\n")
    text = str(fails(path, "--budget", 1))
    assert "grow beyond what can be counted" in text or "a.shares (line 3): wanted shares whose sum can be counted" in text


def test_every_wrong_setting_of_a_generator_is_told_at_once(tmp_path):
    wrong = ("colour=red", "size=9", "zipf=steep", "parallelism=9:3", "joins=2", "rate=1", "rate=2")
    settings = [word for setting in wrong for word in ("--set", setting)]
    text = str(fails("generate", "topology", *settings, "--out", tmp_path / "t.yaml"))
    for part in (
        "what --set gives has 5 problems",
        "--set knows no 'colour', 'size'; names",
        "--set zipf wants a value such as 0, got 'steep'",
        "range 'parallelism' wants 1 <= low <= high, got 9 to 3",
        "share 'joins' must lie between 0 and 1, got 2",
        "--set gives 'rate' twice",
    ):
        assert part in text
    many = fails("generate", "application", "--set", "replicas=17", "--set", "source_rate=0:1", "--out", tmp_path / "a.yaml")
    assert "'replicas' wants at most 16, got 17" in str(many) and "range 'source_rate' wants 0 < low" in str(many)


def test_what_was_written_is_named(topology, descriptor, tmp_path):
    for document, option in ((topology, "--budget"), (descriptor, "--ic")):
        out = tmp_path / f"{document.stem}.json"
        result = run(document, option, 1 if document is topology else 0.6, "--out", out, "--json")
        assert f"wrote {out}" in result.stderr.splitlines() and json.loads(result.stdout)


def test_a_file_that_is_not_there_is_told_with_what_to_do(topology):
    near = topology.with_suffix(".yml")
    assert f"{near}: no such file; did you mean '{topology}'?" in str(fails(near, "--budget", 1))
    far = topology.parent / "nowhere" / "xyz.json"
    assert "no such file; check the path; 'holdfast profile' writes" in str(fails(far, "--budget", 1))


def test_a_stream_is_named_once_by_a_sink_and_in_the_list_of_streams(tmp_path):
    twice = changed(tmp_path, sinks={"sink": Sink(inputs=("pe2", "pe2"))})
    assert "sinks.sink.inputs (line" in (text := str(fails(twice))) and "names stream 'pe2' twice; give it once" in text
    source = figure_1().sources["source"]
    shared = changed(tmp_path, sources={"source": source, "pe1": source}, sinks={"sink": Sink(inputs=("pe3",))})
    assert "reads stream 'pe3', which does not exist; streams are: pe1, pe2, source" in str(fails(shared))


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_budget_beyond_the_tasks_is_told_once_whatever_planners_are_asked(topology, more):
    result = run(topology, "--budget", 100, "--planner", "all", *more)
    assert "give a budget from 0 to 6" in str(result.exception) and isinstance(result.exception, HoldfastError)
    assert result.output == ""


def test_a_current_plan_that_does_not_fit_is_told_once_whatever_planners_are_asked(topology, tmp_path):
    (tmp_path / "p.yaml").write_text("topology: roads\nbudget: 1\nreplicated: [{task: a/0}]\n")
    result = run(topology, "--budget", 2, "--planner", "all", "--current", tmp_path / "p.yaml")
    assert "is a plan of topology 'roads', not of 'lanes'" in str(result.exception)
    assert result.output == ""


@pytest.mark.parametrize("task", ["a/00", "a/\u0663", "a/+1", "a/" + "9" * 5000, "a/"])
def test_a_task_by_another_spelling_than_its_own_is_no_task(topology, tmp_path, task):
    plan = tmp_path / "p.json"
    plan.write_text(json.dumps({"topology": "lanes", "budget": 1, "replicated": [{"task": task}]}))
    assert "and there is no such task" in str(fails("fidelity", topology, "--with-plan", plan))
    plan.write_text(json.dumps({"topology": "lanes", "budget": 1, "parallelism": {"a": 3, "b": 3}, "replicated": [{"task": task}]}))
    assert "is no task of the operators under 'parallelism'" in str(fails("fidelity", topology, "--with-plan", plan))


def test_rates_of_any_size_are_looked_up(descriptor, tmp_path):
    out = tmp_path / "s.json"
    run(descriptor, "--ic", 0.6, "--out", out)
    result = run("lookup", out, "--rate", "source=1e200", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["configuration"] == "high"


def test_a_strategy_tells_in_json_what_it_tells_in_words(descriptor, tmp_path):
    out = tmp_path / "s.json"
    text = run(descriptor, "--ic", 0.6, "--out", out).stdout
    document = json.loads(out.read_text())
    for one in document["configurations"]:
        assert set(one["why"]) == {"pe1", "pe2"}
        assert all(f"{pe} in '{one['name']}': {why}\n" in text for pe, why in one["why"].items())
    assert f"next: {document['next']['why']}\n" in text
    assert "money" not in document


def test_a_bargain_tells_its_money_and_what_comes_next(tmp_path):
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
def test_money_beyond_counting_is_told_with_its_place(tmp_path, name, amount):
    path = tmp_path / "priced.yaml"
    write_document(path, figure_1())
    text = path.read_text().replace(f"{name}: 0.0", f"{name}: {amount}")
    path.write_text(text)
    said = str(fails(path, "--by-contract"))
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"{name}:" in one)
    assert f"contract.pricing.{name} (line {line}): wanted 0 or an amount from 1e-60 to 1e+60" in said
    assert "beyond what can be counted" in said


def test_impacts_of_any_size_are_weighed_by_their_ratios(topology, tmp_path):
    made = []
    for text in ("{a: 1, b: 1}", "{a: 1.0e+308, b: 1.0e+308}"):
        (tmp_path / "impact.yaml").write_text(f"impact: {text}\n")
        made.append(json.loads(run(topology, "--budget", 2, "--criticality", tmp_path / "impact.yaml", "--json").stdout))
    assert made[0] == made[1]


def test_a_strategy_out_of_range_is_not_looked_up(descriptor, tmp_path):
    out = tmp_path / "s.json"
    run(descriptor, "--ic", 0.6, "--out", out)
    document = json.loads(out.read_text())
    out.write_text(json.dumps({**document, "sla": 7, "internal_completeness": -3, "cost": -5}))
    said = str(fails("lookup", out, "--rate", "source=1"))
    assert "sla (line 1): wanted a number from 0 to 1, got 7" in said
    assert "internal_completeness (line 1): wanted a number from 0 to 1, got -3" in said
    assert "cost (line 1): wanted a number of at least 0, got -5" in said
    for one in document["configurations"]:
        one["rates"] = {}
    out.write_text(json.dumps(document))
    assert "is empty; a strategy is looked up by the rate of at least one source" in str(fails("lookup", out, "--rate", "source=1"))


def test_an_sla_next_to_one_is_told_with_all_its_digits(descriptor):
    said = str(fails(descriptor, "--ic", 0.99999))
    assert "meets an internal completeness of 0.99999: the best that can be met is 0.6667" in said


def test_an_operator_whose_name_holds_a_slash_is_refused(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("topology: t\noperators:\n  a: {parallelism: 2, rate: 1}\n  a/0: {parallelism: 2, inputs: {a: one-to-one}}\n")
    assert "operators.a/0 (line 4): wanted a name without '/'" in str(fails(path, "--budget", 1))


@pytest.mark.parametrize("option", ["--current", "--criticality"])
def test_what_is_read_is_not_written_over(topology, tmp_path, option):
    read = tmp_path / "read.json"
    read.write_text("{}")
    assert f"--out '{read}' is what {option} reads; give another name" in str(
        fails(topology, "--budget", 2, option, read, "--out", read)
    )
    assert read.read_text() == "{}"
    picture = tmp_path / "read.svg"
    picture.symlink_to(topology)
    assert "is the document to plan for; give another name" in str(fails(topology, "--budget", 2, "--plot", picture))


@pytest.mark.parametrize("words", [("",), ("t.yaml", "--out", ""), ("fidelity", ""), ("lookup", "", "--rate", "a=1")])
def test_an_empty_name_is_no_file(words):
    result = run(*words)
    assert result.exit_code == 2
    assert "wanted the name of a file, got an empty one" in result.output


@pytest.mark.parametrize(
    ("kind", "setting", "said"),
    [
        ("application", "cost=1e-320", "range 'cost' wants numbers from 1e-09 to 1e+09"),
        ("application", "selectivity=1e300", "range 'selectivity' wants numbers from 1e-09 to 1e+09"),
        ("application", "source_rate=1e307:1e308", "range 'source_rate' wants numbers from 1e-09 to 1e+09"),
        (
            "application",
            "selectivity=1e9 out_degree=20 hosts=12 pes_per_host=12",
            "give a range 'selectivity' nearer to 1, fewer PEs or a smaller 'out_degree'",
        ),
        ("topology", "rate=1e308", "'rate' wants 0 or a number from 1e-09 to 1e+09, got 1e+308"),
    ],
)
def test_what_could_not_be_planned_is_not_generated(tmp_path, kind, setting, said):
    out = tmp_path / "made"
    settings = [word for one in setting.split() for word in ("--set", one)]
    assert said in str(fails("generate", kind, *settings, "--count", 3, "--out", out))
    assert not out.exists()


@pytest.mark.parametrize("setting", ["selectivity=1e-9", "cost=1e-9", "source_rate=1e-9:1e9", "selectivity=3:30"])
def test_what_is_generated_can_be_planned(tmp_path, setting):
    out = tmp_path / "made.yaml"
    made = run("generate", "application", "--set", setting, "--set", "hosts=2", "--set", "pes_per_host=3", "--out", out)
    assert made.exit_code == 0, made.output
    assert run(out, "--ic", 0, "--planner", "sr").exit_code == 0


def test_a_plan_and_a_strategy_have_a_page_beside_them_and_it_is_told_last(topology, descriptor, tmp_path):
    for document, option, value, title, kind in (
        (topology, "--budget", 2, "A plan for lanes", PlanDocument),
        (descriptor, "--ic", 0.6, "A strategy for figure-1", Strategy),
    ):
        out = tmp_path / "made" / f"{document.stem}.yaml"
        result = run(document, option, value, "--out", out)
        assert result.exit_code == 0, result.output
        page = out.with_suffix(".html")
        assert result.stderr.splitlines()[-1] == f"report: {page}"
        assert f"<title>{title}</title>" in page.read_text()
        (tmp_path / "printed.json").write_text(run(document, option, value, "--out", out, "--json").stdout)
        assert read_document(tmp_path / "printed.json", kind) == read_document(out, kind)


def test_the_page_of_a_comparison_shows_all_that_were_compared(topology, descriptor, tmp_path):
    assert run(topology, "--budget", 2, "--planner", "all", "--out", tmp_path / "plan.json").exit_code == 0
    assert "Planners compared" in (tmp_path / "plan.html").read_text()
    compared = run(
        descriptor, "--ic", 0.6, "--planner", "all", "--plot", tmp_path / "p.svg", "--out", tmp_path / "s.json", "--json"
    )
    assert json.loads(compared.stdout)["report"] == str(tmp_path / "s.html")
    assert "the cheapest of each SLA" in (tmp_path / "s.html").read_text()


def test_a_page_is_not_written_over_a_folder(topology, tmp_path):
    (tmp_path / "plan.html").mkdir()
    assert "plan.html' is a directory; give another name" in str(fails(topology, "--budget", 2, "--out", tmp_path / "plan.json"))
    assert not (tmp_path / "plan.json").exists()
