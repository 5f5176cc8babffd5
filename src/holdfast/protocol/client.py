"""The user's side of the orchestrator's API: submit, ask, cancel, wait. Answers are documents, as the API has them."""

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
from holdfast.protocol.messages import LARGEST
from holdfast.protocol.node_link import OrchestratorUnreachable as OrchestratorUnreachable
from holdfast.protocol.node_link import check_url, error_text, parse_token, read_address, read_token

URL = "HOLDFAST_URL"
TOKEN = "HOLDFAST_TOKEN"
CALL_S = 30.0
RETRY_S = 0.1


class ClientError(HoldfastError):
    """A call that the orchestrator refused; `status` is HTTP's word for it, `errors` are those of a document that was sent."""

    def __init__(self, text: str, *, status: int, errors: Sequence[FieldError] = ()) -> None:
        self.status, self.errors = status, tuple(errors)
        super().__init__(text)


class WaitFailed(HoldfastError):
    """What was waited for did not come about in time."""


class Client:
    """Calls of one user. Closes its connections at the end of a `with` block."""

    def __init__(self, url: str, token: str, *, certificate: Path | None = None) -> None:
        self.url, self.token = url.rstrip("/"), token
        check_url(self.url)
        try:
            verify = ssl.create_default_context(cafile=certificate) if self.url.startswith("https") else False
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
        """Hand in a job; its number. It has been taken for good when this returns."""
        return int(self.submit_plain(job.model_dump(mode="json", exclude_defaults=True))["id"])

    def submit_plain(self, data: object) -> dict[str, Any]:
        """Hand in a job in plain values, as they were read from a document: its number, name and state.

        The orchestrator checks it, and tells what is wrong with the document together with what only it can know.
        """
        sendable = json.loads(json.dumps(data, default=str), parse_constant=str)  # JSON has no number for NaN and the like
        return self._call("POST", "/v1/jobs", json=sendable)

    def job(self, job: int) -> dict[str, Any]:
        """Return one job and its history."""
        return self._call("GET", f"/v1/jobs/{job}")

    def jobs(
        self, *, state: str | None = None, limit: int = 100, after: int | None = None, limit_s: float = CALL_S
    ) -> list[dict[str, Any]]:
        """A page of jobs, newest first, from the one after job `after` on."""
        asked = {"state": state, "limit": limit, "after": after}
        found: list[dict[str, Any]] = self._call("GET", "/v1/jobs", params=_given(asked), limit_s=limit_s)["jobs"]
        return found

    def all_jobs(self, *, state: str | None = None) -> Iterator[dict[str, Any]]:
        """Every job, newest first, page by page."""
        after: int | None = None
        while page := self.jobs(state=state, limit=500, after=after):
            yield from page
            after = int(page[-1]["id"])

    def cancel(self, job: int) -> dict[str, Any]:
        return self._call("POST", f"/v1/jobs/{job}/cancel")

    def activate(self, job: int, active: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """Say which replicas of some tasks (such as 'vwap/0') shall be active; the others of these tasks go idle."""
        return self._call("POST", f"/v1/jobs/{job}/activation", json={"active": {task: list(on) for task, on in active.items()}})

    def nodes(self, *, limit_s: float = CALL_S) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", "/v1/nodes", limit_s=limit_s)["nodes"]
        return found

    def drain(self, node: str, *, drain: bool = True) -> dict[str, Any]:
        """Move everything off a node and give it nothing more; or let it take replicas again."""
        return self._call("POST", f"/v1/nodes/{quote(node, safe='')}/drain", json={"drain": drain})

    def agents(self, job: int) -> list[dict[str, Any]]:
        """The prediction agents of a job, by task: what each does, how accurate it is, what it predicted."""
        found: list[dict[str, Any]] = self._call("GET", f"/v1/jobs/{job}/agents")["agents"]
        return found

    def change_agent(self, job: int, task: str, orders: Mapping[str, Any]) -> dict[str, Any]:
        """Change the algorithms or parameters of a task's prediction agent while it runs."""
        pe, _, number = task.rpartition("/")
        return self._call("POST", f"/v1/jobs/{job}/agents/{quote(pe, safe='')}/{number}", json={"orders": dict(orders)})

    def events(self, *, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
        """Events after a number: as soon as there is one, or none after `wait_s`."""
        return self._call("GET", "/v1/events", params={"after": after, "wait_s": wait_s}, limit_s=wait_s + CALL_S)

    def newest_event(self) -> int:
        """The number of the newest event."""
        return int(self.events(after=LARGEST)["newest"])

    def inject(self, fault: Mapping[str, Any], *, limit_s: float = CALL_S) -> dict[str, Any]:
        """Bring about a fault in the running orchestrator."""
        return self._call("POST", "/v1/faults", json=dict(fault), limit_s=limit_s)

    def health(self) -> dict[str, Any]:
        """Whether it serves; anybody may ask that."""
        return self._call("GET", "/v1/health")

    def status(self) -> dict[str, Any]:
        """Which orchestrator it is, and how many jobs, nodes and replicas it has, the latter by their states."""
        return self._call("GET", "/v1/status")

    def wait_for(self, job: int, states: Collection[str], *, limit_s: float) -> dict[str, Any]:
        """The job's story once it is in one of these states. An orchestrator that is away meanwhile is waited for.

        Raises WaitFailed when the limit has passed, or when the job has ended otherwise.
        """
        ends = time.monotonic() + limit_s
        after: int | None = None
        while True:
            left_s = ends - time.monotonic()
            try:
                if after is None:
                    after = self.newest_event()
                elif left_s > 0:
                    after = int(self.events(after=after, wait_s=min(left_s, 1.0))["last"])
                found = self.job(job)
            except OrchestratorUnreachable:
                if left_s <= 0:
                    raise
                time.sleep(RETRY_S)
                continue
            if found["state"] in states:
                return found
            if found.get("ended") or left_s <= 0:
                why = f": {found['reason']}" if found.get("reason") else ""
                waited = "" if found.get("ended") else f" after {limit_s:g} s"
                raise WaitFailed(f"job {job} is {found['state']}{waited}, not {' or '.join(states)}{why}")

    def wait_for_drained(self, node: str, *, limit_s: float) -> dict[str, Any]:
        """The node once nothing is left on it, be it drained or lost. An orchestrator that is away meanwhile is waited for.

        Raises WaitFailed, with why replicas stay, when the limit has passed.
        """
        ends = time.monotonic() + limit_s
        after = 0
        stays: dict[str, str] = {}
        while True:
            left_s = ends - time.monotonic()
            try:
                seen = self.events(after=after, wait_s=max(0.0, min(left_s, 1.0)) if after else 0.0)
                found = next((each for each in self.nodes() if each["name"] == node), None)
            except OrchestratorUnreachable:
                if left_s <= 0:
                    raise
                time.sleep(RETRY_S)
                continue
            after = int(seen["last"])
            for event in seen["events"]:
                if event["kind"] == "replica" and event["data"]:
                    stays.pop(event["replica"], None)  # it changed or moved since: where it stays now, that is told again
                elif event["node"] == node and event["kind"] == "decision" and event["replica"] is not None:
                    stays[event["replica"]] = event["text"]
            if found is None:
                raise WaitFailed(f"node '{node}' is not there any more")
            if found["state"] == "drained" or (found["state"] == "lost" and not found["replicas"]):
                return found
            if left_s <= 0 and after >= seen["newest"]:
                why = "".join(f"; {key} {text}" for key, text in sorted(stays.items()))
                has = counted(found["replicas"])
                raise WaitFailed(f"node '{node}' is {found['state']} and has {has} after {limit_s:g} s{why}")

    def _call(self, method: str, path: str, *, limit_s: float = CALL_S, **what: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, self.url + path, timeout=limit_s, **what)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise OrchestratorUnreachable(
                f"the orchestrator at {self.url} was reached and did not answer within {limit_s:g} s; "
                "what was asked for may still be done: look with 'holdfast jobs', or ask again"
            ) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise HoldfastError(
                    f"the certificate of the orchestrator at {self.url} is not trusted ({error}); "
                    "give --certificate with the PEM file of the authority that signed it, or of itself"
                ) from error
            raise OrchestratorUnreachable(
                f"no orchestrator answers at {self.url} ({error or type(error).__name__}); start one with 'holdfast serve', "
                f"or say where it is with --orchestrator or {URL}"
            ) from error
        if answer.status_code >= 300:
            hint = f"; the user token is in user.token of the orchestrator's --work folder, or {TOKEN}"
            text = f"{error_text(answer.content)}{hint if answer.status_code in (401, 403) else ''}"
            raise ClientError(text, status=answer.status_code, errors=_errors(answer.content))
        try:
            found = answer.json() if answer.content else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HoldfastError(
                f"what answers at {self.url} is no orchestrator: wanted a JSON object, got {answer.text[:60]!r}; "
                f"say where it is with --orchestrator or {URL}"
            )
        return found


def _errors(content: bytes) -> list[FieldError]:
    """The errors of a document, as an orchestrator tells them."""
    try:
        told = json.loads(content).get("problems", [])
        return [FieldError(tuple(each["place"]), str(each["text"])) for each in told]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def counted(replicas: int) -> str:
    """A number of replicas, in words.

    >>> counted(0), counted(1), counted(2)
    ('no replica', '1 replica', '2 replicas')
    """
    return f"{replicas or 'no'} replica{'' if replicas in (0, 1) else 's'}"


def find_client(where: str | None, token: Path | None = None, *, certificate: Path | None = None) -> Client:
    """A client of the orchestrator at a URL, or of the one whose --work folder is given; else as the environment says.

    A token comes from the file given, from the work folder, or from the environment.
    """
    place = where or os.environ.get(URL) or DEFAULT_WORK
    if "://" in place:
        secret = os.environ.get(TOKEN)
        if token is None and not secret:
            raise HoldfastError(f"orchestrator '{place}' needs a token: give --token-file with its user.token, or set {TOKEN}")
        found = _read(token, read_token) if token is not None else parse_token(secret or "", source=TOKEN)
        return Client(place, found, certificate=certificate)
    folder = Path(place)
    if not (folder / "address").exists():
        raise OrchestratorUnreachable(
            f"no orchestrator has run in '{folder}'; start one with 'holdfast serve --work {folder}', "
            f"or say where it is with --orchestrator or {URL}"
        )
    return Client(
        _read(folder / "address", read_address), _read(token or folder / "user.token", read_token), certificate=certificate
    )


DEFAULT_WORK = "orchestrator"
"""The work folder of an orchestrator that was told nothing else."""


def _read(path: Path, how: Callable[[Path], str]) -> str:
    try:
        return how(path)
    except OSError as error:
        raise HoldfastError(f"'{path}' cannot be read: {error.strerror}") from error


def _given(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value is not None}
