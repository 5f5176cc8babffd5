"""The client of the orchestrator's API for users: submit jobs, list them, cancel them, wait. Answers are the API's documents."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from holdfast.documents.document import FieldError
from holdfast.documents.job import Job
from holdfast.errors import HoldfastError
from holdfast.protocol.messages import LARGEST, NOT_LEADER
from holdfast.protocol.node_link import OrchestratorUnreachable as OrchestratorUnreachable
from holdfast.protocol.node_link import error_text, parse_token, read_address, read_token, split_urls

URL = "HOLDFAST_URL"
TOKEN = "HOLDFAST_TOKEN"
CALL_S = 30.0
RETRY_S = 0.1


class ClientError(HoldfastError):
    """A call that the orchestrator refused, with its HTTP status. `errors` are the errors of the document that was sent."""

    def __init__(self, text: str, *, status: int, errors: Sequence[FieldError] = ()) -> None:
        self.status, self.errors = status, tuple(errors)
        super().__init__(text)


class WaitFailed(HoldfastError):
    """The awaited state was not reached in time, or cannot be reached any more."""


class Client:
    """A client with a user token. As a context manager, it closes its connections at the end.

    `url` may have several addresses, separated by commas. A call goes to the one that is the leader.
    """

    def __init__(self, url: str, token: str, *, certificate: Path | None = None) -> None:
        self.urls, self.token = split_urls(url), token
        self._leader = 0
        try:
            secure = any(each.startswith("https") for each in self.urls)
            verify = ssl.create_default_context(cafile=certificate) if secure else False
        except OSError as error:
            raise HoldfastError(f"certificate '{certificate}' cannot be used: {error}; give a PEM file") from error
        self._http = httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=CALL_S, verify=verify)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, job: Job) -> int:
        """Submit a job and return its number. When this returns, the orchestrator has stored the job."""
        return int(self.submit_plain(job.model_dump(mode="json", exclude_defaults=True))["id"])

    def submit_plain(self, data: object) -> dict[str, Any]:
        """Submit a job as plain values, as read from a document, and return its number, name and state.

        The orchestrator reports the errors of the document together with those that only it can know.
        """
        sendable = json.loads(json.dumps(data, default=str), parse_constant=str)  # JSON has no NaN and no infinity
        return self._call("POST", "/v1/jobs", json=sendable)

    def job(self, job: int) -> dict[str, Any]:
        """Return one job and its history."""
        return self._call("GET", f"/v1/jobs/{job}")

    def jobs(
        self, *, state: str | None = None, limit: int = 100, after: int | None = None, limit_s: float = CALL_S
    ) -> list[dict[str, Any]]:
        """Return a page of jobs, newest first: those older than job `after`."""
        parameters = {"state": state, "limit": limit, "after": after}
        query = {name: value for name, value in parameters.items() if value is not None}
        page: list[dict[str, Any]] = self._call("GET", "/v1/jobs", params=query, limit_s=limit_s)["jobs"]
        return page

    def all_jobs(self, *, state: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every job, newest first. Fetches page by page."""
        after: int | None = None
        while page := self.jobs(state=state, limit=500, after=after):
            yield from page
            after = int(page[-1]["id"])

    def cancel(self, job: int) -> dict[str, Any]:
        return self._call("POST", f"/v1/jobs/{job}/cancel")

    def activate(self, job: int, active: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """Activate exactly these replicas of some tasks (such as 'vwap/0'). The other replicas of these tasks become idle."""
        return self._call("POST", f"/v1/jobs/{job}/activation", json={"active": {task: list(on) for task, on in active.items()}})

    def nodes(self, *, limit_s: float = CALL_S) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self._call("GET", "/v1/nodes", limit_s=limit_s)["nodes"]
        return nodes

    def drain(self, node: str, *, drain: bool = True) -> dict[str, Any]:
        """Move all replicas off a node and assign it no more; or let it take replicas again."""
        return self._call("POST", f"/v1/nodes/{quote(node, safe='')}/drain", json={"drain": drain})

    def agents(self, job: int) -> list[dict[str, Any]]:
        """Return the prediction agents of a job with their state and accuracy."""
        agents: list[dict[str, Any]] = self._call("GET", f"/v1/jobs/{job}/agents")["agents"]
        return agents

    def change_agent(self, job: int, task: str, orders: Mapping[str, Any]) -> dict[str, Any]:
        """Change the algorithms or parameters of a task's prediction agent while it runs."""
        pe, _, number = task.rpartition("/")
        return self._call("POST", f"/v1/jobs/{job}/agents/{quote(pe, safe='')}/{number}", json={"orders": dict(orders)})

    def events(self, *, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
        """Return the events after a number. Waits up to `wait_s` for the first."""
        return self._call("GET", "/v1/events", params={"after": after, "wait_s": wait_s}, limit_s=wait_s + CALL_S)

    def newest_event(self) -> int:
        """Return the number of the newest event."""
        return int(self.events(after=LARGEST)["newest"])

    def inject(self, fault: Mapping[str, Any], *, limit_s: float = CALL_S) -> dict[str, Any]:
        """Inject a fault into the running orchestrator."""
        return self._call("POST", "/v1/faults", json=dict(fault), limit_s=limit_s)

    def health(self) -> dict[str, Any]:
        """Return whether an orchestrator serves: the leader's state, or a standby's if there is no leader. Needs no token."""
        for _ in self.urls:
            health = self._call("GET", "/v1/health")
            if health.get("state") != "standby":
                break
            self._leader += 1
        return health

    def status(self) -> dict[str, Any]:
        """Return the orchestrator's term and version, and how many jobs, nodes and replicas (by state) it has."""
        return self._call("GET", "/v1/status")

    def wait_for(self, job: int, states: Collection[str], *, limit_s: float) -> dict[str, Any]:
        """Wait until a job is in one of these states and return it. Waits while the orchestrator is unreachable.

        Raises WaitFailed after `limit_s`, or when the job has ended in another state.
        """
        ends = time.monotonic() + limit_s
        after: int | None = None
        while True:
            remaining_s = ends - time.monotonic()
            try:
                if after is None:
                    after = self.newest_event()
                elif remaining_s > 0:
                    after = int(self.events(after=after, wait_s=min(remaining_s, 1.0))["last"])
                state = self.job(job)
            except OrchestratorUnreachable:
                if remaining_s <= 0:
                    raise
                time.sleep(RETRY_S)
                continue
            if state["state"] in states:
                return state
            if state.get("ended") or remaining_s <= 0:
                why = f": {state['reason']}" if state.get("reason") else ""
                wait_text = "" if state.get("ended") else f" after {limit_s:g} s"
                raise WaitFailed(f"job {job} is {state['state']}{wait_text}, not {' or '.join(states)}{why}")

    def wait_for_drained(self, node: str, *, limit_s: float) -> dict[str, Any]:
        """Wait until a node has no replicas, because it is drained or lost. Waits while the orchestrator is unreachable.

        Raises WaitFailed after `limit_s`, with the reasons why replicas stay.
        """
        ends = time.monotonic() + limit_s
        after = 0
        stay_reasons: dict[str, str] = {}
        while True:
            remaining_s = ends - time.monotonic()
            try:
                page = self.events(after=after, wait_s=max(0.0, min(remaining_s, 1.0)) if after else 0.0)
                state = next((other for other in self.nodes() if other["name"] == node), None)
            except OrchestratorUnreachable:
                if remaining_s <= 0:
                    raise
                time.sleep(RETRY_S)
                continue
            after = int(page["last"])
            for event in page["events"]:
                if event["kind"] == "replica" and event["data"]:
                    stay_reasons.pop(event["replica"], None)  # it changed; if it still stays, a later event says so
                elif event["node"] == node and event["kind"] == "decision" and event["replica"] is not None:
                    stay_reasons[event["replica"]] = event["text"]
            if state is None:
                raise WaitFailed(f"node '{node}' does not exist any more")
            if state["state"] == "drained" or (state["state"] == "lost" and not state["replicas"]):
                return state
            if remaining_s <= 0 and after >= page["newest"]:
                why = "".join(f"; {key} {text}" for key, text in sorted(stay_reasons.items()))
                replicas = count_replicas(state["replicas"])
                raise WaitFailed(f"node '{node}' is {state['state']} and has {replicas} after {limit_s:g} s{why}")

    @property
    def url(self) -> str:
        """The address that answered last as the leader, or that is tried next."""
        return self.urls[self._leader % len(self.urls)]

    def _call(self, method: str, path: str, *, limit_s: float = CALL_S, **content: Any) -> dict[str, Any]:
        """Call the leader. The next address is tried if one cannot be reached or is not the leader: it has carried out nothing."""
        for remaining in reversed(range(len(self.urls))):
            try:
                return self._call_one(method, self.url, path, limit_s=limit_s, **content)
            except OrchestratorUnreachable as error:
                self._leader += 1
                if not remaining or not isinstance(error, _NotReached):
                    raise
        raise AssertionError("there is at least one address")

    def _call_one(self, method: str, url: str, path: str, *, limit_s: float, **content: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, url + path, timeout=limit_s, **content)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise OrchestratorUnreachable(
                f"the orchestrator at {url} was reached and did not answer within {limit_s:g} s; "
                "it may still carry out the call: check with 'holdfast jobs', or repeat the call"
            ) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise HoldfastError(
                    f"the certificate of the orchestrator at {url} is not trusted ({error}); "
                    "give --certificate with the PEM file of the authority that signed it, or of itself"
                ) from error
            kind = _NotReached if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else OrchestratorUnreachable
            raise kind(
                f"no orchestrator answers at {url} ({error or type(error).__name__}); start one with 'holdfast serve', "
                f"or give its address with --orchestrator or {URL}"
            ) from error
        if answer.status_code == NOT_LEADER:
            raise _NotReached(f"the orchestrator at {url} answered: {error_text(answer.content)}")
        if answer.status_code >= 300:
            hint = f"; the user token is in user.token of the orchestrator's --work folder, or {TOKEN}"
            text = f"{error_text(answer.content)}{hint if answer.status_code in (401, 403) else ''}"
            raise ClientError(text, status=answer.status_code, errors=_errors(answer.content))
        try:
            document = answer.json() if answer.content else {}
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise HoldfastError(
                f"the server at {url} is not an orchestrator: wanted a JSON object, got {answer.text[:60]!r}; "
                f"give its address with --orchestrator or {URL}"
            )
        return document


class _NotReached(OrchestratorUnreachable):
    """No orchestrator has received the call, or one that is not the leader."""


def _errors(content: bytes) -> list[FieldError]:
    """Return the errors of a document in an error answer."""
    try:
        errors = json.loads(content).get("errors", [])
        return [FieldError(tuple(error["place"]), str(error["text"])) for error in errors]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def count_replicas(replicas: int) -> str:
    """Return a number of replicas as text.

    >>> count_replicas(0), count_replicas(1), count_replicas(2)
    ('no replica', '1 replica', '2 replicas')
    """
    return f"{replicas or 'no'} replica{'' if replicas in (0, 1) else 's'}"


def find_client(where: str | None, token: Path | None = None, *, certificate: Path | None = None) -> Client:
    """Return a client of the orchestrator at a URL or with a --work folder; by default the one that the environment names.

    The token comes from the given file, from the work folder, or from the environment.
    """
    location = where or os.environ.get(URL) or DEFAULT_WORK
    if "://" in location:
        secret = os.environ.get(TOKEN, "")
        if token is None and not secret:
            raise HoldfastError(f"orchestrator '{location}' needs a token: give --token-file with its user.token, or set {TOKEN}")
        secret = _read(token, read_token) if token is not None else parse_token(secret, source=TOKEN)
        return Client(location, secret, certificate=certificate)
    folder = Path(location)
    if not (folder / "address").exists():
        raise OrchestratorUnreachable(
            f"no orchestrator has run in '{folder}'; start one with 'holdfast serve --work {folder}', "
            f"or give its address with --orchestrator or {URL}"
        )
    return Client(
        _read(folder / "address", read_address), _read(token or folder / "user.token", read_token), certificate=certificate
    )


DEFAULT_WORK = "orchestrator"
"""The default --work folder of an orchestrator."""


def _read(path: Path, parse: Callable[[Path], str]) -> str:
    try:
        return parse(path)
    except OSError as error:
        raise HoldfastError(f"'{path}' cannot be read: {error.strerror}") from error
