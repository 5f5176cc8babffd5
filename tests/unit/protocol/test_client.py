"""The user's client, against a server with scripted answers."""

import json

import httpx
import pytest

from holdfast.cli.orchestrators import follow
from holdfast.documents.job import Job, LightPe
from holdfast.errors import HoldfastError
from holdfast.protocol.client import Client, ClientError, OrchestratorUnreachable, WaitFailed, find_client
from holdfast.protocol.node_link import locate_orchestrator

JOB = Job(job="a", host_kind="light", pes={"x": LightPe()})


def client(answer, url: str = "http://orchestrator") -> Client:
    opened = Client(url, "secret")
    opened._http.close()
    opened._http = httpx.Client(transport=httpx.MockTransport(answer), headers={"authorization": "Bearer secret"})
    return opened


def test_call_goes_to_the_address_that_leads():
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "dead":
            raise httpx.ConnectError("refused")
        return (
            httpx.Response(421, json={"error": "a standby"})
            if request.url.host == "standby"
            else httpx.Response(201, json={"id": 7})
        )

    with client(answer, "http://dead:1,http://standby:1,http://leader:1") as opened:
        assert [opened.submit(JOB), opened.submit(JOB)] == [7, 7]
    assert asked == ["dead", "standby", "leader", "leader"]


def test_possibly_executed_call_is_not_sent_to_another_address():
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadError("reset")

    with client(answer, "http://a:1,http://b:1") as opened, pytest.raises(OrchestratorUnreachable, match="no orchestrator answers"):
        opened.submit(JOB)
    assert asked == ["a"]


def test_job_is_sent_as_its_document():
    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path, request.headers["authorization"]) == ("POST", "/v1/jobs", "Bearer secret")
        assert json.loads(request.content) == {"job": "a", "host_kind": "light", "pes": {"x": {}}}
        return httpx.Response(201, json={"id": 7})

    with client(answer) as orchestrator:
        assert orchestrator.submit(JOB) == 7


def test_refusal_has_the_orchestrators_text_and_a_token_hint():
    with client(lambda request: httpx.Response(404, json={"error": "job 9 does not exist"})) as orchestrator:
        with pytest.raises(ClientError, match=r"^job 9 does not exist$") as caught:
            orchestrator.job(9)
        assert caught.value.status == 404
    with (
        client(lambda request: httpx.Response(401, json={"error": "wrong token"})) as orchestrator,
        pytest.raises(ClientError, match=r"wrong token; the user token is in user.token of the orchestrator's --work folder"),
    ):
        orchestrator.nodes()


def test_unreachable_orchestrator_error_says_what_to_do():
    with (
        Client("http://127.0.0.1:1", "secret") as orchestrator,
        pytest.raises(OrchestratorUnreachable, match=r"start one with 'holdfast serve'"),
    ):
        orchestrator.health()


def test_all_jobs_are_listed_page_by_page():
    pages = {None: [5, 4], "4": [3], "3": []}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"jobs": [{"id": n} for n in pages[request.url.params.get("after")]]})

    with client(answer) as orchestrator:
        assert [job["id"] for job in orchestrator.all_jobs()] == [5, 4, 3]


def waiting(states: list[str]) -> Client:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/events":
            return httpx.Response(200, json={"events": [], "last": 3, "newest": 3})
        state = states.pop(0) if len(states) > 1 else states[0]
        if state == "away":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"state": state, "ended": state == "failed", "reason": "no room"})

    return client(answer)


def test_waiting_survives_an_unreachable_orchestrator():
    with waiting(["mapping", "away", "away", "running"]) as orchestrator:
        assert orchestrator.wait_for(1, ["running"], limit_s=10)["state"] == "running"


def test_waiting_ends_with_the_job_or_the_time_limit():
    with waiting(["mapping", "failed"]) as orchestrator, pytest.raises(WaitFailed, match=r"job 1 is failed, not running: no room"):
        orchestrator.wait_for(1, ["running"], limit_s=10)
    with (
        waiting(["mapping"]) as orchestrator,
        pytest.raises(WaitFailed, match=r"job 1 is mapping after 0 s, not running or completed"),
    ):
        orchestrator.wait_for(1, ["running", "completed"], limit_s=0)


def test_client_is_found_by_folder_or_environment(tmp_path, monkeypatch):
    with pytest.raises(OrchestratorUnreachable, match=r"no orchestrator has run in '.*'; start one with 'holdfast serve --work"):
        find_client(str(tmp_path))
    (tmp_path / "address").write_text("http://127.0.0.1:5\n")
    (tmp_path / "user.token").write_text("secret\n")
    with find_client(str(tmp_path)) as orchestrator:
        assert orchestrator.url == "http://127.0.0.1:5"
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:6/")
    with pytest.raises(HoldfastError, match=r"needs a token: give --token-file with its user.token, or set HOLDFAST_TOKEN"):
        find_client(None)
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    with find_client(None) as orchestrator:
        assert orchestrator.url == "http://127.0.0.1:6"


def test_late_and_foreign_answers_have_their_own_errors():
    def late(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out")

    with (
        client(late) as orchestrator,
        pytest.raises(OrchestratorUnreachable, match=r"was reached and did not answer within 30 s; it may still"),
    ):
        orchestrator.submit(JOB)
    for text in ("<html>hello</html>", "[]"):
        with (
            client(lambda request, text=text: httpx.Response(200, text=text)) as orchestrator,
            pytest.raises(HoldfastError, match=r"the server at http://orchestrator is not an orchestrator: wanted a JSON object"),
        ):
            orchestrator.nodes()


def test_drain_and_follow_wait_for_a_killed_orchestrator(monkeypatch):
    monkeypatch.setattr("holdfast.cli.orchestrators.RETRY_S", 0.0)
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.path)
        if len(calls) % 3 == 0:
            raise httpx.ConnectError("refused")
        node = {"name": "n1", "state": "drained" if len(calls) > 4 else "draining", "replicas": 1}
        return httpx.Response(200, json={"nodes": [node], "events": [], "last": 1, "newest": 1, "ended": len(calls) > 12})

    with client(answer) as orchestrator:
        assert orchestrator.wait_for_drained("n1", limit_s=60)["state"] == "drained"
        calls.clear()
        follow(orchestrator, after=1, on_event=print, has_ended=lambda: bool(orchestrator.job(1)["ended"]))
    assert len(calls) > 12


def test_follow_shows_the_final_events():
    """The job has already ended at the first call, and its events come in two answers."""
    events_sent = [{"number": 1, "text": "running -> canceling"}, {"number": 2, "text": "canceling -> failed: out of memory"}]

    def answer(request: httpx.Request) -> httpx.Response:
        after = int(request.url.params["after"])
        events = [event for event in events_sent if event["number"] > after][:1]
        return httpx.Response(200, json={"events": events, "last": after + len(events), "newest": 2})

    seen: list[object] = []
    with client(answer) as orchestrator:
        follow(orchestrator, after=0, on_event=seen.append, has_ended=lambda: True)
    assert seen == events_sent


def test_drain_error_names_only_replicas_that_still_stay():
    def event(number, key, kind, text, **data):
        return {"number": number, "node": "n1", "replica": key, "kind": kind, "text": text, "data": data}

    events = [
        event(1, "1:x/0.0", "decision", "cannot leave n1"),
        event(2, "1:x/0.0", "replica", "stopped", state="stopped"),
        event(3, "2:x/0.0", "decision", "cannot leave n1"),
        event(4, "2:x/0.0", "replica", "idled"),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/events":
            return httpx.Response(200, json={"events": events, "last": 4, "newest": 4})
        draining = {"name": "n1", "state": "draining", "replicas": 1}
        return httpx.Response(200, json={"nodes": [draining]})

    with client(answer) as orchestrator, pytest.raises(WaitFailed) as caught:
        orchestrator.wait_for_drained("n1", limit_s=0)
    assert str(caught.value) == "node 'n1' is draining and has 1 replica after 0 s; 2:x/0.0 cannot leave n1"


def test_lost_node_without_replicas_counts_as_drained():
    lost = {"name": "n1", "state": "lost", "replicas": 0}
    with client(lambda request: httpx.Response(200, json={"nodes": [lost], "events": [], "last": 1, "newest": 1})) as orchestrator:
        assert orchestrator.wait_for_drained("n1", limit_s=0) == lost


@pytest.mark.parametrize(("content", "got"), [(b"", "nothing"), (b"\xb8\xff", "something else"), (b"one\ntwo", "something else")])
def test_invalid_token_file_is_reported_and_not_sent(tmp_path, content, got):
    (tmp_path / "address").write_text("http://127.0.0.1:5\n")
    (tmp_path / "user.token").write_bytes(content)
    with pytest.raises(HoldfastError, match=rf"user.token': wanted a token, which is one line of ASCII, got {got}; copy it"):
        find_client(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\xff\xfe", b"nonsense"])
def test_invalid_address_file_is_an_error_that_nodes_wait_out(tmp_path, content):
    (tmp_path / "address").write_bytes(content)
    (tmp_path / "user.token").write_text("secret")
    for kind, message in (
        (HoldfastError, lambda: find_client(str(tmp_path))),
        (OrchestratorUnreachable, locate_orchestrator(str(tmp_path), None)),
    ):
        with pytest.raises(kind, match=r"address': wanted the orchestrator's address, got '.*'; start the orchestrator again"):
            message()


def test_invalid_token_in_the_environment_is_reported(monkeypatch):
    monkeypatch.setenv("HOLDFAST_TOKEN", "ä€")
    with pytest.raises(HoldfastError, match=r"HOLDFAST_TOKEN: wanted a token, .* got something else"):
        find_client("http://127.0.0.1:6")


def test_untrusted_certificate_has_its_own_error():
    def untrusted(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")

    with (
        client(untrusted) as orchestrator,
        pytest.raises(HoldfastError, match=r"is not trusted .*; give --certificate with the PEM file"),
    ):
        orchestrator.health()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://:80", "http://a:0", "http://a:99999", "https://a/?b", "://"])
def test_invalid_url_is_refused(url, tmp_path):
    for connect in (lambda: Client(url, "secret"), lambda: locate_orchestrator(url, tmp_path / "token")):
        with pytest.raises(HoldfastError, match="wanted http://HOST:PORT, https://HOST:PORT, several of these"):
            connect()


def test_health_is_that_of_the_leader_if_there_is_one():
    """A standby answers this call too, so that a check of the standby itself gets an answer."""
    states = {"a": "standby", "b": "serving"}

    def answer(request):
        return httpx.Response(200, json={"state": states[request.url.host]})

    with client(answer, "http://a:1,http://b:1") as opened:
        assert opened.health() == {"state": "serving"}
        states["b"] = "standby"
        assert opened.health() == {"state": "standby"}
