"""A PE host: its beat waits for Spark and ends with it, and what it is to run is loaded as soon as that can be."""

import threading
import time
from types import SimpleNamespace

import pytest

from holdfast.errors import HoldfastError, LogError, MachineError
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus
from holdfast.runtime import pe_host as hosts
from holdfast.runtime.pe_host import PeHost

LIMIT_S = 20.0


class Ended(BaseException):
    """The process would be gone."""


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = PeHost(tmp_path, "n1")
    monkeypatch.setattr(hosts, "BEAT_S", 0.01)
    yield made
    made.stopping.set()
    made._history.close()


def said(tmp_path):
    return HostStatus.model_validate_json((tmp_path / "host.json").read_text())


def test_a_host_whose_spark_is_gone_says_so_and_ends(host, tmp_path, monkeypatch, capsys):
    codes = []

    def end(code):
        codes.append(code)
        raise Ended

    def feel():
        raise MachineError("Spark's JVM was killed by SIGKILL")

    monkeypatch.setattr("os._exit", end)
    host._spark, host._feel = object(), feel
    with pytest.raises(Ended):
        host._beat()
    assert codes == [1]
    assert (said(tmp_path).ready, said(tmp_path).error) == (True, "Spark's JVM was killed by SIGKILL")
    assert "Spark's JVM was killed by SIGKILL" in capsys.readouterr().err


def test_a_host_that_stops_does_not_mind_that_spark_is_gone(host):
    def feel():
        host.stopping.set()
        raise MachineError("Spark's context has ended")

    host._feel = feel
    host._beat()


def test_a_host_whose_spark_hangs_falls_silent(host, tmp_path):
    hangs, goes_on = threading.Event(), threading.Event()
    beats = []

    def feel():
        beats.append(1)
        if len(beats) == 3:
            hangs.set()
            assert goes_on.wait(LIMIT_S)

    host._feel = feel
    beating = threading.Thread(target=host._beat, daemon=True)
    beating.start()
    assert hangs.wait(LIMIT_S)
    last_s = said(tmp_path).beat_s
    beating.join(0.1)
    assert said(tmp_path).beat_s == last_s
    goes_on.set()
    ends_s = time.monotonic() + LIMIT_S
    while said(tmp_path).beat_s == last_s and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert said(tmp_path).beat_s > last_s
    host.stopping.set()
    beating.join(LIMIT_S)


class Job:
    """A job whose log is away at first, and that cannot be loaded where it is called so."""

    def __init__(self, tries, *, name):
        self.tries = tries
        self.tries.append(name)
        if name == "broken":
            raise HoldfastError("the log at 'x' is that of application 'bank'")
        if len(self.tries) < 3:
            raise LogError("the log at 'x' cannot be read: connection refused")

    def worker(self, assigned, stopped):
        raise HoldfastError("it was loaded, and that is all")


def ended(host, key):
    ends_s = time.monotonic() + LIMIT_S
    while (status := host._loops[key].status()).state != "failed" and time.monotonic() < ends_s:
        time.sleep(0.01)
    return status


@pytest.fixture
def loading(host, monkeypatch):
    """A function that gives the host a replica of a job of that name; and how often it tried to load it."""
    tries: list[str] = []
    monkeypatch.setattr("holdfast.runtime.replica_loop.LOG_LOOK_S", 0.01)
    monkeypatch.setattr(hosts, "ReplicaFactory", lambda spark, number, settings, **_: Job(tries, name=settings["job"]["job"]))
    host._spark = SimpleNamespace(sparkContext=SimpleNamespace(cancelJobGroup=lambda group: None))
    assigned = AssignedReplica(job=1, pe="vwap", task=0, replica=0, incarnation=1, rank=0, active=True)

    def assign(jobs):
        host._assignment = Assignment(term=1, generation=1, replicas=(assigned,), jobs=jobs)
        host._apply()
        return assigned.key

    return assign, tries


def test_a_job_whose_log_is_away_is_loaded_when_it_is_back(host, loading):
    assign, tries = loading
    key = assign({1: {"job": {"job": "market"}}})
    assert ended(host, key).error == "it was loaded, and that is all"
    assert len(tries) == 3


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ({1: {"job": {"job": "broken"}}}, "the log at 'x' is that of application 'bank'"),
        ({1: {}}, "its assignment does not describe job 1"),
    ],
)
def test_a_job_that_cannot_be_loaded_is_refused(host, loading, jobs, said):
    key = loading[0](jobs)
    assert (host._refused[key].state, host._refused[key].error, host._loops) == ("failed", said, {})


def test_a_host_without_work_rehearses_and_one_with_work_has_no_need_to(host, loading, monkeypatch):
    rehearsed, told = [], []
    monkeypatch.setattr(hosts, "STANDBY_S", 0.0)
    monkeypatch.setattr(hosts, "rehearse", rehearsed.append)
    monkeypatch.setattr(host, "_tell", lambda kind, about: told.append(kind))
    host._stand_by()
    assert (rehearsed, told) == ([host._spark], ["rehearsed"])
    loading[0]({1: {"job": {"job": "market"}}})
    host._stand_by()
    assert len(rehearsed) == 1


def test_a_host_whose_rehearsal_fails_goes_on(host, loading, monkeypatch, capsys):
    def rehearse(spark):
        raise MachineError("no executor answers")

    monkeypatch.setattr(hosts, "STANDBY_S", 0.0)
    monkeypatch.setattr(hosts, "rehearse", rehearse)
    host._stand_by()
    assert "could not rehearse: no executor answers" in capsys.readouterr().err
