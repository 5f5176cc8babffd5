"""A strategy on Spark: the load switches replicas, and a node is killed in High."""

import pytest

from holdfast.documents import Contract, Feed, Job, write_document
from holdfast.documents.descriptor import DescriptorNode, DescriptorSource, Rate
from holdfast.planning.laar import plan_strategy
from holdfast.trial import LocalCluster, layout_of, run_job
from holdfast.trial.run_document import describe_run
from holdfast_papers.laar.pipeline_study import Load, kill_in_high, pipeline_descriptor, write_load

LOAD = Load(low_s=7, high_s=7, after_s=21)  # High for a fifth of the time, as in the descriptor
TIMES = 10  # of the paper's rates: a higher rate is noticed after fewer epochs
APPLICATION = """
from holdfast import App

app = App("pipeline", epoch_s=1.0)
source = app.source("source", "seq long, time timestamp, value double")


def passed(tuples):
    return tuples.select("seq", "time", "value")


pe2 = app.operator(inputs=app.operator(inputs=source, name="pe1")(passed), name="pe2")(passed)
app.sink("results", pe2)
"""


def strategy():
    """Return the planner's strategy for Figure 1 with ten times its rates and cores."""
    rates = (Rate(name="low", rate=4 * TIMES, probability=0.8), Rate(name="high", rate=8 * TIMES, probability=0.2))
    nodes = {name: DescriptorNode(cores=TIMES) for name in ("n1", "n2")}
    scaled = {"sources": {"source": DescriptorSource(rates=rates)}, "nodes": nodes}
    return plan_strategy(pipeline_descriptor().model_copy(update=scaled)).strategy


def job_of(folder, *, deadline_s):
    (folder / "pipeline.py").write_text(APPLICATION)
    write_load(folder / "load.parquet", [TIMES * rate for rate in LOAD.rates])
    write_document(folder / "strategy.json", strategy())
    return Job(
        job="pipeline",
        type="finite",
        application=str(folder / "pipeline.py"),
        feed=Feed(trace=str(folder / "load.parquet")),
        log=str(folder / "log"),
        out=str(folder / "out"),
        strategy=str(folder / "strategy.json"),
        replicas={"source": 2},  # a promise is about PEs; a source that fails takes all input with it
        contract=Contract(deadline_s=deadline_s),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strategy")
    job = job_of(folder, deadline_s=8.0)
    with LocalCluster(folder / "cluster", nodes=2) as cluster:
        cluster.start()
        return folder, run_job(job, layout_of(job), cluster, schedule=kill_in_high(LOAD))


def promise(document):
    return next(verdict for verdict in document["verdicts"] if verdict["name"] == "internal completeness as promised")


@pytest.mark.long
def test_promise_is_kept_when_a_node_is_killed_in_high(run):
    folder, job_run = run
    document = describe_run(job_of(folder, deadline_s=8.0), job_run, verify=False)
    assert document["state"] == "completed", document["reason"]
    assert promise(document)["holds"] is True, promise(document)["reason"]
    high = next(switch for switch in document["switches"] if switch["configuration"] == "high")
    assert high["off_s"] is not None  # two replicas were switched off, and the run measured how long that took
    assert promise(document)["figures"]["promised"] == pytest.approx(2 / 3)


@pytest.mark.long
def test_promise_is_broken_if_the_contract_allows_no_delay(run):
    folder, job_run = run
    document = describe_run(job_of(folder, deadline_s=0.001), job_run, verify=False)
    assert promise(document)["holds"] is False
