"""A PE host's beat: it waits for Spark, and ends with it."""

import threading
import time

import pytest

from holdfast.errors import MachineError
from holdfast.manage.protocol import HostStatus
from holdfast.run import host as hosts
from holdfast.run.host import Host

LIMIT_S = 20.0


class Ended(BaseException):
    """The process would be gone."""


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path, "n1")
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
