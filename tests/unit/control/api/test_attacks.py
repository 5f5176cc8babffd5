"""Malicious and careless callers are refused with an error text, and no job or node is affected."""

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console

from holdfast.cli.nodes import table
from holdfast.control.api.calls import MAX_BODY_BYTES
from holdfast.control.jobs.job_paths import AllowedPaths
from holdfast.node.controller import REPORTS_PER_BEAT
from holdfast.protocol.messages import Beat, Registration, Report

from ..conditions import has_event, nodes
from ..conftest import SimulatedNode, alive, running

LIGHT = {"host_kind": "light", "pes": {"x": {}}}


def refusals(settings, calls):
    """Return the status and text of each call. The orchestrator must be healthy afterwards."""

    async def play():
        async with running(settings) as control:
            await control.orchestrator.recovered.wait()
            answers = []
            for method, path, token, content in calls:
                answer = await control.call(method, path, token=token, content=content)
                answers.append((answer.status_code, answer.json().get("error", "")))
            assert (await control.call("GET", "/v1/health")).json()["state"] == "serving"
            return answers

    return asyncio.run(play())


def test_caller_without_token_learns_only_the_health(settings):
    async def play():
        async with running(settings) as control, alive(SimulatedNode(control, "n1")):
            await control.reaches(await control.submit(), "running")
            assert (await control.http.get("/v1/health")).json() == {"state": "serving"}
            assert (await control.http.get("/v1/status")).status_code == 401
            assert (await control.call("GET", "/v1/status", token="node")).status_code == 403
            status = (await control.call("GET", "/v1/status")).json()
            assert (status["term"], status["jobs"], status["nodes"], status["replica_states"]) == (1, 1, 1, {"running": 1})

    asyncio.run(play())


@pytest.mark.parametrize(
    ("application", "words"),
    [
        ("../outside.py", "is not under"),
        ("{apps}/../outside.py", "is not under"),
        ("{apps}/link.py", "is not under"),
        ("/etc/passwd", "is not under"),
        ("a\0b", "is no path: it has a zero byte"),
        ("{apps}", "is not a file that the orchestrator can read"),
        ("{apps}/" + "a" * 5000, "is not a file that the orchestrator can read"),
        ("{apps}/" + "a/" * 4000, "is not a file that the orchestrator can read"),
    ],
)
def test_application_outside_the_allowed_folder_is_refused(settings, tmp_path, application, words):
    apps = tmp_path / "apps"
    apps.mkdir()
    (tmp_path / "outside.py").write_text("")
    (apps / "link.py").symlink_to(tmp_path / "outside.py")
    content = json.dumps({"job": "x", "application": application.replace("{apps}", str(apps))})
    ((status, text),) = refusals(replace(settings, bounds=AllowedPaths(apps)), [("POST", "/v1/jobs", "user", content)])
    assert status == 422
    assert words in text


def test_paths_outside_the_allowed_folders_are_all_reported(settings, tmp_path):
    apps, data = tmp_path / "apps", tmp_path / "data"
    for folder in (apps, data):
        folder.mkdir()
    (apps / "app.py").write_text("")
    (data / "away").symlink_to(tmp_path)
    (apps / "circle").symlink_to(apps / "circle")
    bounded = replace(settings, bounds=AllowedPaths(apps, (str(data), "s3://bucket/jobs")))
    named = {
        "application": str(apps / "app.py"),
        "plan": "/etc/passwd",
        "feed": {"trace": f"{data}/../outside", "columns": str(tmp_path / "columns.yaml"), "checkpoints": "/etc"},
        "log": f"{data}/away/log",
        "out": "s3://bucket/jobs-of-others",
    }
    strange = {"strategy": "a\0b", "feed": {"trace": f"{data}/{{a,/etc}}"}, "log": "log", "out": "file:///etc"}
    jobs = (named, {**named, **strange, "plan": None}, {"application": str(apps / "circle" / "app.py")})
    (_, first), (_, second), (status, third) = refusals(
        bounded, [("POST", "/v1/jobs", "user", json.dumps({"job": "x", **job})) for job in jobs]
    )
    assert status == 422 and "is not a file that the orchestrator can read" in third
    for words in (
        "plan: '/etc/passwd' is not under",
        f"feed.trace: '{tmp_path}/outside' is not under '{data}' or 's3://bucket/jobs'",
        f"feed.columns: '{tmp_path}/columns.yaml' is not under '{apps}'",
        "feed.checkpoints: '/etc' is not under",
        f"log: '{data}/away/log' is not under",
        "out: 's3://bucket/jobs-of-others' is not under",
    ):
        assert words in first
    for words in (
        "strategy: 'a\\x00b' is no path",
        "is not plain: if the orchestrator restricts data paths, they have no pattern",
        f"log: '{Path.cwd()}/log' is not under",
        "out: 'file:///etc' is not under",
    ):
        assert words in second


def test_allowed_paths_are_accepted_and_relative_ones_resolved(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("")
    bounded = replace(settings, bounds=AllowedPaths(tmp_path, (str(tmp_path / "data"), "s3://bucket/jobs")))
    job = {
        "job": "x",
        "application": "app.py",
        "feed": {"trace": "data/../data/rows"},
        "log": "s3://bucket/jobs/x/log",
        "out": "data",
    }

    async def play():
        async with running(bounded) as control:
            answer = await control.call("POST", "/v1/jobs", json=job)
            assert answer.status_code == 201, answer.text
            return (await control.job(answer.json()["id"]))["document"]

    document = asyncio.run(play())
    assert document["application"] == str(tmp_path / "app.py")
    assert document["feed"]["trace"] == str(tmp_path / "data" / "rows")
    assert (document["log"], document["out"]) == ("s3://bucket/jobs/x/log", str(tmp_path / "data"))


def test_document_errors_do_not_hide_type_and_path_errors(settings, tmp_path):
    bounded = replace(settings, bounds=AllowedPaths(tmp_path, (str(tmp_path / "data"),)))
    job = {
        "job": 5,
        "type": "forever",
        "application": "/etc/passwd",
        "plan": ["p"],
        "feed": {"trace": "/elsewhere", "columns": 7},
        "policy": {"restart": "often", "backoff_s": -1},
    }
    ((status, text), (_, none)) = refusals(bounded, [("POST", "/v1/jobs", "user", json.dumps(each)) for each in (job, [job])])
    assert status == 422
    assert [line.removeprefix("  - ").split(",")[0].split(";")[0] for line in text.splitlines()] == [
        "job has 9 errors:",
        "job: wanted text",
        "feed.columns: wanted text",
        "plan: wanted text",
        "policy.restart: wanted one of 'here'",
        "log: is missing",
        "policy.backoff_s: wanted a number of at least 0",
        "type: there is no type 'forever'",
        f"application: '/etc/passwd' is not under '{tmp_path}'",
        f"feed.trace: '/elsewhere' is not under '{tmp_path}/data'",
    ]
    assert none.startswith("job: wanted a mapping")


def test_invalid_node_messages_are_refused_cheaply(settings):
    for model, name, rest in (
        (Beat, "reports", {"term": 1}),
        (Registration, "replicas", {"name": "a", "cores": 1, "memory_bytes": 1}),
    ):
        with pytest.raises(ValidationError) as caught:
            model.model_validate_json(json.dumps({**rest, name: [{}] * 1000}))
        assert {error["loc"][:2] for error in caught.value.errors()} == {(name, 0)}
    offer = json.dumps({"name": "a", "cores": 1, "memory_bytes": 1, "labels": {f"k{n}": n for n in range(1000)}})
    assert refusals(settings, [("POST", "/v1/nodes", "node", offer)]) == [
        (422, "wanted a Registration, got something with 1000 errors")
    ]


def test_documents_with_very_many_errors_are_refused_quickly(settings):
    def job(**more):
        return "POST", "/v1/jobs", "user", json.dumps({"job": "x", **LIGHT, **more})

    (_, many), (_, odd), (status, values) = refusals(
        settings,
        [
            job(pes={f"x{n}": {} for n in range(10_001)}, policy={"restart": "often"}),
            job(replicas={f"y{n}": 0 for n in range(5_000)}),
            job(**{f"k{n}": 1 for n in range(150_001)}),
        ],
    )
    assert "pes: wanted at most 10000 of them" in many and "policy.restart: wanted one of" in many
    assert odd.startswith("job has 201 errors") and odd.endswith("and more") and len(odd) < 50_000
    assert (status, values.split(",")[0]) == (413, "the body is too long; wanted at most 150000 values")


@pytest.mark.parametrize("depth", [250, 980, 100_000])
def test_deeply_nested_json_is_refused(settings, depth):
    deep = "[" * depth + "]" * depth
    calls = [
        ("POST", "/v1/jobs", "user", f'{{"job": "x", "host_kind": "light", "pes": {deep}}}'),
        ("POST", "/v1/nodes", "node", f'{{"name": {deep}}}'),
        ("POST", "/v1/nodes/n1/beat", "node", f'{{"term": 1, "reports": {deep}}}'),
    ]
    for status, text in refusals(settings, calls):
        assert status in (400, 422)
        assert "recursion" in text


def test_repeated_key_is_refused_and_named(settings):
    content = '{"job": "a", "job": "b", "host_kind": "light", "pes": {"x": {}}}'
    assert refusals(settings, [("POST", "/v1/jobs", "user", content)]) == [
        (422, "the body has 'job' more than once in one mapping; keep one")
    ]


def test_all_errors_of_a_node_offer_are_reported(settings):
    offer = {"cores": float("nan"), "memory_bytes": -1, "host_kind": "h" * 2000, "labels": {"replicas": "²"}}
    huge = {"name": "n1", "cores": 1, "memory_bytes": 1, "labels": {"replicas": "9" * 5000}}
    many = {"name": "n1", "cores": 1, "memory_bytes": 1, "labels": {f"l{n}": "" for n in range(101)}}
    calls = [("POST", "/v1/nodes", "node", json.dumps(each)) for each in ({"name": "../n", **offer}, huge, many)]
    (all_of_it, digits, labels) = refusals(settings, calls)
    for words in (
        "node '../n': wanted a name of letters",
        "wanted cores above 0 and up to 1000000, got nan",
        "wanted memory of 0 to 9007199254740992 bytes, got -1",
        "wanted a controller, a host kind and a metrics address of at most 1000 characters",
        "label 'replicas': wanted a whole number below ten million, got '²'",
    ):
        assert words in all_of_it[1]
    assert "wanted a whole number below ten million, got '9999" in digits[1]
    assert labels == (422, "node 'n1': wanted at most 100 labels of at most 1000 characters")
    assert all_of_it[0] == digits[0] == 422


def test_node_with_unprintable_values_is_refused_and_others_work(settings):
    huge = "9" * 400
    offers = (
        f'{{"name": "bad", "cores": 1, "memory_bytes": {huge}, "host_kind": "light"}}',
        '{"name": "bad", "cores": 1, "memory_bytes": 1, "labels": {"rack": "\\u001b[2J"}}',
    )

    async def play():
        async with running(settings) as control:
            n1 = SimulatedNode(control, "n1", labels={"rack": "[/r]"})
            async with alive(n1):
                answers = [(await control.call("POST", "/v1/nodes", token="node", content=offer)) for offer in offers]
                assert [answer.status_code for answer in answers] == [422, 422]
                assert "wanted memory of 0 to" in answers[0].text and "labels of printable characters" in answers[1].text
                host = f'{{"pid": 1, "started_s": 0, "beat_s": 0, "memory_bytes": {huge}}}'
                beat = f'{{"term": {n1.term}, "host": {host}}}'
                answer = await control.call("POST", "/v1/nodes/n1/beat", token="node", content=beat)
                assert (answer.status_code, "host.memory_bytes" in answer.text) == (422, True)
                number = await control.submit(needs={"x": {"memory_mib": 0}})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", error="\x1b[2Jcleared")
                await control.until(lambda: has_event(control, "failed: \ufffd[2Jcleared"))
                return (await control.call("GET", "/v1/nodes")).json()["nodes"]

    listed = asyncio.run(play())
    shown = Console(markup=False, width=200, file=io.StringIO())
    shown.print(table(listed, now_s=0.0))
    assert "rack=[/r]" in shown.file.getvalue()


def test_long_error_texts_fit_into_one_beat():
    reports = tuple(
        Report(number=number, at_s=0, key=f"1:x/{number}.0", incarnation=1, state="failed", error="\u20ac" * 1_000_000)
        for number in range(3)
    )
    beat = Beat(term=1, reports=reports * (REPORTS_PER_BEAT // 3 + 1))
    assert len(beat.model_dump_json().encode()) < MAX_BODY_BYTES


def test_reasons_are_shortened_and_valid_for_every_database(settings):
    async def play():
        async with running(settings) as control:
            n1 = SimulatedNode(control, "n1")
            async with alive(n1):
                number = await control.submit(policy={"give_up_after": 1, "then": "cancel"})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", error="zero \0 byte " + "x" * 1_000_000)
                failed = await control.reaches(number, "failed")
                other = await control.submit("b")
                await control.reaches(other, "running")
                await control.call("POST", f"/v1/jobs/{other}/cancel", json={"cause": "a\0b"})
                canceled = await control.reaches(other, "canceled")
        return failed, canceled

    failed, canceled = asyncio.run(play())
    assert len(failed["reason"]) < 5000
    assert "zero \ufffd byte" in failed["reason"]
    assert canceled["reason"] == "a\ufffdb"


def test_unwritable_log_loses_only_its_lines(settings):
    async def play():
        async with running(settings) as control:

            def full(text):
                raise OSError(28, "No space left on device")

            control.orchestrator._say = full
            control.orchestrator.persistence.database.simulate_outage(0.3)
            n1 = SimulatedNode(control, "n1")
            async with alive(n1):
                number = await control.submit()
                await control.reaches(number, "running")

    asyncio.run(play())


def test_internal_error_is_answered_briefly_and_logged_in_full(settings):
    async def play():
        async with running(settings) as control:

            async def broken(document):
                raise ZeroDivisionError("a mistake")

            await control.orchestrator.recovered.wait()
            control.orchestrator.submit = broken
            answer = await control.call("POST", "/v1/jobs", json={"job": "x", **LIGHT})
            assert (answer.status_code, answer.json()) == (
                500,
                {"error": "ZeroDivisionError in the orchestrator; its log has the details"},
            )
            assert "POST /v1/jobs: Traceback" in control.printed[-1]
            assert "ZeroDivisionError: a mistake" in control.printed[-1]

    asyncio.run(play())


def test_nan_from_a_node_is_refused_and_lists_stay_json(settings):
    offer = '{"name": "n1", "host_kind": "light", "cores": 1, "memory_bytes": 1}'
    host = '{"pid": 1, "started_s": 0, "beat_s": 0, "cpu_s": %s, "about": {"accuracy": [NaN]}}'

    async def play():
        async with running(settings) as control:
            await control.orchestrator.recovered.wait()
            await control.call("POST", "/v1/nodes", token="node", content=offer)

            async def beat(more):
                return (await control.call("POST", "/v1/nodes/n1/beat", token="node", content=f'{{"term": 1, {more}}}')).status_code

            for nonsense in ('"stalled_s": NaN', '"stalled_s": 1e999', f'"host": {host % "-Infinity"}'):
                assert await beat(nonsense) == 422
            assert await beat(f'"host": {host % "1.5"}') == 200
            shown = (await control.call("GET", "/v1/nodes")).text
            (node,) = json.loads(shown, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["nodes"]
            assert node["host_status"]["about"] == {"accuracy": [None]}

    asyncio.run(play())


def test_flooding_node_affects_no_other(settings):
    async def play():
        async with running(settings) as control:
            good, bad = nodes(control, "good", "bad")
            async with alive(good):
                number = await control.submit("a")
                await control.reaches(number, "running")
                await bad.register()
                for nonsense in (b"\xff{]", b"[]", b"null", b'{"term": "x"}', b'{"term": 1, "reports": 7}', b"9" * 1000):
                    answer = await control.call("POST", "/v1/nodes/bad/beat", token="node", content=nonsense)
                    assert answer.status_code == (400 if nonsense == b"\xff{]" else 422)
                lies = [{"number": 1, "at_s": 0, "key": f"{number}:x/0.0", "incarnation": 1, "state": "failed"}]
                assert (await bad.beat(reports=lies)).status_code == 200
                flood = [control.call("POST", "/v1/nodes/bad/beat", token="node", content=b"[]") for _ in range(300)]
                assert {answer.status_code for answer in await asyncio.gather(*flood)} <= {422, 429}
                job = await control.job(number)
                assert job["tasks"][0]["replicas"][0]["state"] == "running"
                assert control.orchestrator.resources.nodes["good"].state == "up"

    asyncio.run(play())
