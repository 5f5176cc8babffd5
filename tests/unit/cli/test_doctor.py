"""holdfast doctor: what it lists, and its exit code."""

import json


def test_missing_java_is_reported_with_advice_and_code_2(holdfast, no_java):
    ran = holdfast("doctor")
    assert ran.code == 2
    lines = [line for line in ran.out.splitlines() if line.startswith("MISSING")]
    assert lines == [
        "MISSING Java: none found; Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    ]


def test_json_has_every_finding(holdfast, no_java):
    ran = holdfast("doctor", "--json")
    document = json.loads(ran.out)
    assert ran.code == 2
    assert document["ok"] is False
    assert {item["name"]: item["ok"] for item in document["requirements"] if item["required"]}["Java"] is False
    assert {item["name"] for item in document["requirements"]} >= {
        "Python",
        "Java",
        "pyspark",
        "memory",
        "scratch space",
    }


def test_missing_test_programs_are_no_error(holdfast, monkeypatch):
    monkeypatch.setattr("holdfast.engine.session.java_version", lambda: 21)
    monkeypatch.setattr("shutil.which", lambda name: None)
    ran = holdfast("doctor")
    assert ran.code == 0
    assert "ok      Java: version 21" in ran.out
    assert "absent  Chromium: not found; only some tests use it: apt-get install chromium" in ran.out


def test_old_java_is_reported_as_missing(holdfast, monkeypatch):
    monkeypatch.setattr("holdfast.engine.session.java_version", lambda: 11)
    ran = holdfast("doctor")
    assert ran.code == 2
    assert "MISSING Java: version 11; Spark needs Java 17 or newer" in ran.out


def test_missing_package_is_reported(holdfast, monkeypatch):
    from importlib.metadata import PackageNotFoundError, version

    def missing(name: str) -> str:
        if name == "pyarrow":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("holdfast.engine.session.java_version", lambda: 17)
    monkeypatch.setattr("holdfast.cli.doctor.version", missing)
    ran = holdfast("doctor")
    assert ran.code == 2
    assert "MISSING pyarrow: not installed; run 'make setup' in the project's folder" in ran.out
