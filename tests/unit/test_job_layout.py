"""Jobs taken apart into tasks, and every way in which a job, a plan or a strategy does not fit its application."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.documents.document import write_document
from holdfast.documents.job import Adapting, Contract, Feed, Job, Need, Task
from holdfast.errors import ApplicationError, HoldfastError
from holdfast.job_layout import layout_of
from holdfast.planning.laar.strategy import Activation, Strategy
from holdfast.planning.ppa.plan_document import PlanDocument, PlannedReplica
from holdfast.runtime.sources.reader_query import query_checkpoint_path

EXAMPLE = Path(__file__).parents[2] / "examples" / "bargain_discovery.py"

PARALLEL = """
from holdfast import App

app = App("parallel")
orders = app.source("orders", "seq long, user int", key="user", parallelism=2)
one = app.operator(inputs=orders, key="user", parallelism=2, name="one")(lambda rows: rows)
split = app.operator(inputs=one, key="user", parallelism=4, partitioning="split", name="split")(lambda rows: rows)
merge = app.operator(inputs=split, key="user", parallelism=2, partitioning="merge", name="merge")(lambda rows: rows)
full = app.operator(inputs=merge, key="user", parallelism=3, name="full")(lambda rows: rows)
app.sink("out", full)
"""


def job(**changes):
    return Job(**{"job": "j", "application": str(EXAMPLE), "log": "log", **changes})


def plan(tmp_path, *tasks, topology="bargain-discovery", objective="of"):
    path = tmp_path / "plan.json"
    replicated = tuple(PlannedReplica(task=task) for task in tasks)
    write_document(path, PlanDocument(topology=topology, budget=9, objective=objective, replicated=replicated))
    return str(path)


def replicas(layout):
    return {task.name: task.replicas for task in layout.tasks}


def test_layout_has_tasks_of_sources_pes_and_sinks_in_order():
    tasks = layout_of(job()).tasks
    assert [task.name for task in tasks] == [
        "market/0", "trade_quote/0", "quote_filter/0", "trade_filter/0", "aggregator/0", "vwap/0", "bargain_index/0", "bargains/0",
    ]  # fmt: skip
    assert {task.kind for task in tasks} == {"source", "operators", "sink"}


def test_tasks_read_their_group_and_share(tmp_path):
    path = tmp_path / "parallel.py"
    path.write_text(PARALLEL)
    reads = {task.name: task.reads[0] for task in layout_of(job(application=str(path))).tasks if task.reads}
    assert reads["one/1"].tasks == (1,)
    assert (reads["split/3"].tasks, reads["split/3"].share, reads["split/3"].of) == ((1,), 1, 2)
    assert reads["merge/1"].tasks == (2, 3)
    assert (reads["full/2"].tasks, reads["full/2"].share, reads["full/2"].of, reads["full/2"].key) == ((0, 1), 2, 3, ("user",))
    assert reads["out/0"].tasks == (0, 1, 2)


def test_plan_replicates_its_tasks_and_the_sinks(tmp_path):
    counts = replicas(layout_of(job(plan=plan(tmp_path, "vwap/0", "market/0"), feed={"trace": "market.parquet"})))
    assert {name for name, count in counts.items() if count == 2} == {"vwap/0", "market/0", "bargains/0"}


@pytest.mark.parametrize("adapt", [None, {"budget": 2}])
def test_plan_does_not_replicate_a_source_with_a_reader(tmp_path, adapt):
    counts = replicas(layout_of(job(plan=plan(tmp_path, "vwap/0", "market/0"), adapt=adapt)))
    assert (counts["market/0"], counts["vwap/0"]) == (1, 2)


@pytest.mark.parametrize("name", ["market", "market/0"])
def test_replicas_of_a_source_with_a_reader_are_rejected(name):
    with pytest.raises(HoldfastError, match=r"wants 2 replicas of 'market/0', a source with a reader.*kafka="):
        layout_of(job(replicas={name: 2}))
    assert replicas(layout_of(job(replicas={name: 2}, feed={"trace": "market.parquet"})))["market/0"] == 2
    assert replicas(layout_of(job(replicas={name: 1})))["market/0"] == 1


def test_reader_needs_checkpoints_that_spark_can_write():
    with pytest.raises(
        HoldfastError, match=r"log at 's3://b/log', where Spark cannot keep how far it has read source 'market'; give"
    ):
        layout_of(job(log="s3://b/log"))
    layout_of(job(log="s3://b/log", feed={"checkpoints": "/mnt/readers"}))
    layout_of(job(log="s3://b/log", feed={"trace": "market.parquet"}))
    layout_of(job(log="s3://b/log", streams={"market": "other:market"}))
    layout_of(job(log="file:///mnt/log"))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"log": "/mnt/log"}, "/mnt/log/streaming/market%2F0"),
        ({"log": "s3://b/log", "feed": {"checkpoints": "/mnt/readers/"}}, "/mnt/readers/s3%3A%2F%2Fb%2Flog/market%2F0"),
    ],
)
def test_reader_checkpoints_differ_per_log(changes, place):
    assert query_checkpoint_path(job(**changes), Task(pe="market", kind="source")) == place


def test_plan_for_fused_operators_replicates_their_pe(tmp_path):
    path = tmp_path / "fused.py"
    path.write_text(EXAMPLE.read_text().replace("@app.operator(", '@app.operator(pe="all", '))
    counts = replicas(layout_of(job(application=str(path), plan=plan(tmp_path, "vwap/0"))))
    assert counts == {"market/0": 1, "all/0": 2, "bargains/0": 2}


def test_replicas_of_the_job_override_the_plan(tmp_path):
    counts = replicas(layout_of(job(plan=plan(tmp_path, "vwap/0"), replicas={"vwap": 3, "aggregator/0": 2})))
    assert (counts["vwap/0"], counts["aggregator/0"]) == (3, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"application": "nowhere.py"}, "application file 'nowhere.py' does not exist"),
        ({"replicas": {"wvap": 2}}, "wants replicas of 'wvap'; its PEs and tasks are: aggregator,"),
    ],
)
def test_unknown_names_are_reported_with_the_known_ones(changes, message):
    with pytest.raises(HoldfastError, match=message.replace("(", r"\(")):
        layout_of(job(**changes))


def test_all_unknown_names_are_reported_together():
    named = {"streams": {"markt": "other:x"}, "replicas": {"wvap": 2, "vwap/1": 2}, "contracts": {"wvap": Contract()}}
    with pytest.raises(HoldfastError) as caught:
        layout_of(job(**named, feed=Feed(trace="trace"), needs={"bargain/0": Need(cores=1), "bargains/0": Need(cores=1)}))
    assert [line.partition("; ")[0] for line in str(caught.value).splitlines()] == [
        "job 'j' has 5 errors:",
        "  - takes from another job source 'markt'",
        "  - wants replicas of 'vwap/1'",
        "  - wants replicas of 'wvap'",
        "  - has a contract for 'wvap'",
        "  - says the needs of 'bargain/0'",
    ]
    assert "source 'markt'; its sources are: market; did you mean 'market'?\n" in str(caught.value)


def test_stored_job_without_application_is_reported():
    with pytest.raises(HoldfastError, match="names no application; a job for Spark needs the path of its file"):
        layout_of(job().model_copy(update={"application": None}))


def test_reader_of_an_uncorrected_pe_must_be_uncorrected():
    lossy = Contract(correction=False)
    with pytest.raises(HoldfastError) as caught:
        layout_of(job(contracts={"vwap": lossy, "trade_filter": lossy, "market": lossy}))
    assert str(caught.value).splitlines()[1:] == [
        "  - 'aggregator' has correction and reads 'trade_filter' of PE 'trade_filter', which has none: it would wait for "
        "corrections that never come; let the contract of 'aggregator' be without correction too, or that of 'trade_filter' "
        "have it",
        "  - 'bargain_index' has correction and reads 'vwap' of PE 'vwap', which has none: it would wait for corrections "
        "that never come; let the contract of 'bargain_index' be without correction too, or that of 'vwap' have it",
    ]
    with pytest.raises(HoldfastError, match="'bargains' has correction and reads 'bargain_index' of PE 'bargain_index'"):
        layout_of(job(contracts={"bargain_index": lossy}))
    layout_of(job(contracts={"bargain_index": lossy, "bargains": lossy}))
    layout_of(job(contract=lossy, contracts={"trade_quote": Contract()}))


def test_plan_for_another_application_is_rejected(tmp_path):
    with pytest.raises(HoldfastError, match="is for application 'clicks', but this one is 'bargain-discovery'"):
        layout_of(job(plan=plan(tmp_path, topology="clicks")))


def test_adapted_plan_must_match_the_first_plan(tmp_path):
    def adapted(made_for, objective):
        return layout_of(job(plan=plan(tmp_path, "vwap/0", objective=made_for), adapt=Adapting(budget=2, objective=objective)))

    assert adapted("ic", "ic").settings["planned"] == ["vwap/0"]
    with pytest.raises(HoldfastError, match="was made for 'ic', and job 'j' adapts it for 'of'; give 'adapt' the objective 'ic'"):
        adapted("ic", "of")
    with pytest.raises(HoldfastError, match=r"was made for 'measured', from the measured costs.*Run the plan without --adapt"):
        adapted("measured", "of")


def test_plan_with_an_unknown_task_is_rejected(tmp_path):
    with pytest.raises(HoldfastError, match="replicates 'vwap/1', and there is no such task"):
        layout_of(job(plan=plan(tmp_path, "vwap/1")))


def strategy(tmp_path, pes, *, source="market"):
    active = dict.fromkeys(pes, (0,))
    document = Strategy(
        application="bargain-discovery",
        solver="given",
        outcome="SOL",
        sla=0.5,
        internal_completeness=0.5,
        cost=1.0,
        billing_period_s=1.0,
        replicas=2,
        placement=dict.fromkeys(pes, ("n1", "n2")),
        configurations=(Activation(name="c", rates={source: 1.0}, probability=1.0, active=active),),
    )
    path = tmp_path / "strategy.json"
    write_document(path, document)
    return str(path)


PES = ["trade_quote", "quote_filter", "trade_filter", "aggregator", "vwap", "bargain_index"]


def test_strategy_sets_replicas_and_nodes(tmp_path):
    layout = layout_of(job(strategy=strategy(tmp_path, PES)))
    assert replicas(layout)["vwap/0"] == 2
    assert layout.nodes["vwap/0"] == ("n1", "n2")


def test_strategy_without_a_pe_is_rejected(tmp_path):
    with pytest.raises(HoldfastError, match="and the application differ in PE 'vwap'"):
        layout_of(job(strategy=strategy(tmp_path, [pe for pe in PES if pe != "vwap"])))


def test_strategy_for_other_sources_is_rejected(tmp_path):
    with pytest.raises(HoldfastError, match="and the application differ in source 'bourse'; both must have: market"):
        layout_of(job(strategy=strategy(tmp_path, PES, source="bourse")))


def test_fused_operators_must_divide_rows_alike(tmp_path):
    path = tmp_path / "parallel.py"
    path.write_text(PARALLEL.replace('name="one"', 'name="one", pe="p"').replace('name="split"', 'name="split", pe="p"'))
    with pytest.raises(ApplicationError, match="PE 'p' fuses one, split, which divide their rows differently"):
        layout_of(job(application=str(path)))


def test_parser_process_prints_an_error_and_exits_with_2():
    document = json.dumps({"job": "j", "application": "nowhere.py", "log": "log"})
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.sandbox", "60", "scratch", "home"], input=document, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "application file 'nowhere.py' does not exist" in done.stderr and "Traceback" not in done.stderr


def test_parser_process_imports_no_orchestrator_code():
    names = "[name for name in sys.modules if name.startswith('holdfast.control.')]"
    loaded = f"import sys, holdfast.sandbox, holdfast.job_layout; print({names})"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


MIXED = """
from holdfast import App

app = App("mixed")
orders = app.source("orders", "seq long, user int")
prices = app.source("prices", "seq long, user int")
recent = app.operator(inputs=orders, name="recent")(lambda rows: rows)
both = app.operator(inputs=[recent, prices], name="both")(lambda left, right: left)
app.sink("out", both)
app.sink("raw", prices)
"""


def test_operator_cannot_mix_a_reader_with_another_jobs_stream(tmp_path):
    path = tmp_path / "mixed.py"
    path.write_text(MIXED)
    with pytest.raises(HoldfastError) as caught:
        layout_of(job(application=str(path), streams={"prices": "market:vwap"}))
    assert str(caught.value).count("rows would be lost") == 2
    assert "'both' reads rows of source 'orders' and of stream 'market:vwap', which two jobs number independently" in str(
        caught.value
    )
    layout_of(job(application=str(path), streams={"prices": "market:vwap", "orders": "market:orders"}))
    path.write_text(MIXED.replace("[recent, prices]", "[recent]").replace("left, right: left", "left: left"))
    layout_of(job(application=str(path), streams={"prices": "market:vwap"}))
