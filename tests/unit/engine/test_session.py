"""Finding Java, and saying what is missing, without starting it; and saying that it is gone."""

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from holdfast.engine.session import SparkCheck, _cores, java_version, open_session, require_java
from holdfast.errors import MachineError


def fake_java(folder: Path, output: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)


@pytest.fixture
def no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.11" 2024-04-16', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("something else", None),
    ],
)
def test_java_version_is_parsed_from_its_output(tmp_path, monkeypatch, output, version):
    fake_java(tmp_path, output)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == version


def test_java_is_found_on_the_path(tmp_path, monkeypatch, no_java):
    assert java_version() is None
    fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    assert java_version() == 17


def test_java_home_without_java_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java_version() is None


def test_missing_java_is_reported_with_the_remedy(no_java):
    with pytest.raises(MachineError, match=r"^Spark needs Java 17 or newer, but none was found; install it \(Debian: apt-get"):
        require_java()


def test_old_java_is_reported(tmp_path, monkeypatch):
    fake_java(tmp_path, 'java version "1.8.0_292"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match=r"^Spark needs Java 17 or newer, but Java 8 was found; .* or point JAVA_HOME at one$"):
        require_java()


def test_session_is_not_started_without_java(no_java, capfd):
    with pytest.raises(MachineError, match="none was found"):
        open_session("local[1]")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("spark://host:7077", 1)])
def test_local_master_names_its_cores(master, cores):
    assert _cores(master) == cores


def test_star_means_all_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert _cores("local[*]") == 7


def spark_check(answer, process=None) -> SparkCheck:
    """Return the check of a context whose JVM is this process and gives this answer."""
    scala = SimpleNamespace(isStopped=answer)
    return SparkCheck(SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala), _gateway=SimpleNamespace(proc=process)))


def broken():
    raise Py4JNetworkError("Answer from Java side is empty")


def test_stopped_context_is_not_alive():
    spark_check(lambda: False).check()
    with pytest.raises(MachineError, match=r"^Spark's context has ended; on a cluster, see what its master reports"):
        spark_check(lambda: True).check()


@pytest.mark.parametrize(
    ("code", "message"),
    [("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"), ("exit(52)", "ended with exit code 52")],
)
def test_dead_jvm_is_reported_with_its_exit_status(code, message):
    with subprocess.Popen([sys.executable, "-c", code]) as process, pytest.raises(MachineError) as caught:
        spark_check(broken, process).check()
    assert str(caught.value) == f"Spark's JVM {message}"


def test_broken_jvm_connection_is_reported(monkeypatch):
    monkeypatch.setattr("holdfast.engine.session.ENDING_S", 0.05)
    with subprocess.Popen(["sleep", "600"]) as process:
        with pytest.raises(MachineError, match=r"^Spark's JVM does not answer any more$"):
            spark_check(broken, process).check()
        process.send_signal(signal.SIGKILL)
