"""The PE host: its beat depends on Spark, and it loads jobs, refuses them and rehearses."""

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
    """Raised instead of ending the process."""


@pytest.fixture
def host(tmp_path, monkeypatch):
    pe_host = PeHost(tmp_path, "n1")
    monkeypatch.setattr(hosts, "BEAT_S", 0.01)
    yield pe_host
    pe_host.stopping.set()
    pe_host._history.close()


def status(tmp_path):
    return HostStatus.model_validate_json((tmp_path / "host.json").read_text())


def test_host_whose_spark_died_reports_it_and_exits(host, tmp_path, monkeypatch, capsys):
    codes = []

    def end(code):
        codes.append(code)
        raise Ended

    def check():
        raise MachineError("Spark's JVM was killed by SIGKILL")

    monkeypatch.setattr("os._exit", end)
    host._spark, host._check_spark = object(), check
    with pytest.raises(Ended):
        host._beat()
    assert codes == [1]
    assert (status(tmp_path).ready, status(tmp_path).error) == (True, "Spark's JVM was killed by SIGKILL")
    assert "Spark's JVM was killed by SIGKILL" in capsys.readouterr().err


def test_stopping_host_ignores_the_end_of_spark(host):
    def check():
        host.stopping.set()
        raise MachineError("Spark's context has ended")

    host._check_spark = check
    host._beat()


def test_host_whose_spark_hangs_stops_beating(host, tmp_path):
    hangs, released = threading.Event(), threading.Event()
    beats = []

    def check():
        beats.append(1)
        if len(beats) == 3:
            hangs.set()
            assert released.wait(LIMIT_S)

    host._check_spark = check
    thread = threading.Thread(target=host._beat, daemon=True)
    thread.start()
    assert hangs.wait(LIMIT_S)
    last_s = status(tmp_path).beat_s
    thread.join(0.1)
    assert status(tmp_path).beat_s == last_s
    released.set()
    deadline_s = time.monotonic() + LIMIT_S
    while status(tmp_path).beat_s == last_s and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert status(tmp_path).beat_s > last_s
    host.stopping.set()
    thread.join(LIMIT_S)


class Factory:
    """A replica factory whose log is unreachable twice. A job named "broken" cannot be loaded at all."""

    def __init__(self, tries, *, name):
        self.tries = tries
        self.tries.append(name)
        if name == "broken":
            raise HoldfastError("the log at 'x' belongs to application 'bank'")
        if len(self.tries) < 3:
            raise LogError("the log at 'x' cannot be read: connection refused")

    def create(self, assigned, is_stopping):
        raise HoldfastError("the job was loaded")


def await_failure(host, key):
    deadline_s = time.monotonic() + LIMIT_S
    while (replica := host._loops[key].status()).state != "failed" and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return replica


@pytest.fixture
def loading(host, monkeypatch):
    """Return a function that assigns a replica to the host, and the list of attempts to load its job."""
    tries: list[str] = []
    monkeypatch.setattr("holdfast.runtime.replica_loop.LOG_RETRY_S", 0.01)
    monkeypatch.setattr(hosts, "ReplicaFactory", lambda spark, number, settings, **_: Factory(tries, name=settings["job"]["job"]))
    host._spark = SimpleNamespace(sparkContext=SimpleNamespace(cancelJobGroup=lambda group: None))
    assigned = AssignedReplica(job=1, pe="vwap", task=0, replica=0, incarnation=1, rank=0, active=True)

    def assign(jobs):
        host._assignment = Assignment(term=1, generation=1, replicas=(assigned,), jobs=jobs)
        host._apply()
        return assigned.key

    return assign, tries


def test_job_is_loaded_once_its_log_is_reachable(host, loading):
    assign, tries = loading
    key = assign({1: {"job": {"job": "market"}}})
    assert await_failure(host, key).error == "the job was loaded"
    assert len(tries) == 3


@pytest.mark.parametrize(
    ("jobs", "error"),
    [
        ({1: {"job": {"job": "broken"}}}, "the log at 'x' belongs to application 'bank'"),
        ({1: {}}, "its assignment does not describe job 1"),
    ],
)
def test_job_that_cannot_be_loaded_fails_its_replica(host, loading, jobs, error):
    key = loading[0](jobs)
    assert (host._without_loop[key].state, host._without_loop[key].error, host._loops) == ("failed", error, {})


def test_only_a_host_without_replicas_rehearses(host, loading, monkeypatch):
    rehearsed, events = [], []
    monkeypatch.setattr(hosts, "STANDBY_S", 0.0)
    monkeypatch.setattr(hosts, "rehearse", rehearsed.append)
    monkeypatch.setattr(host, "_emit", lambda kind, about: events.append(kind))
    host._rehearse_if_standby()
    assert (rehearsed, events) == ([host._spark], ["rehearsed"])
    loading[0]({1: {"job": {"job": "market"}}})
    host._rehearse_if_standby()
    assert len(rehearsed) == 1


def test_failed_rehearsal_does_not_stop_the_host(host, loading, monkeypatch, capsys):
    def rehearse(spark):
        raise MachineError("no executor answers")

    monkeypatch.setattr(hosts, "STANDBY_S", 0.0)
    monkeypatch.setattr(hosts, "rehearse", rehearse)
    host._rehearse_if_standby()
    assert "could not rehearse: no executor answers" in capsys.readouterr().err


def test_status_shows_an_incarnation_before_it_starts(host, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(host, "_start", lambda assigned: shown.extend(replica.state for replica in status(tmp_path).replicas))
    host._assignment = Assignment(replicas=(AssignedReplica(job=1, pe="a", task=0, replica=0),))
    host._apply()
    assert shown == ["starting"]
