"""Parse a job into tasks. Light jobs are parsed here, applications in a process of their own that imports them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.control.plugins import Plugin
from holdfast.documents.document import parse_document
from holdfast.documents.job import Job, Layout, Reading, Task
from holdfast.documents.light_pe import LightPe, order_of
from holdfast.errors import DocumentError, HoldfastError
from holdfast.sandbox import is_available

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command

MAX_PARSE_S = 180.0
MAX_PARSERS = 2
MAX_LAYOUT_BYTES = 16 * 1024 * 1024
MAX_MESSAGE_BYTES = 4000
READ_BYTES = 64 * 1024
PIPE_END_S = 1.0
PARSER = (sys.executable, "-m", "holdfast.sandbox")
"""The parser process. It reads a job as JSON and prints its layout (exit code 0) or the errors of the job (exit code 2)."""
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "JAVA_HOME", "SPARK_HOME")
"""The environment variables that the parser process of an untrusted application gets. Others may be secrets."""


def light_layout(job: Job) -> Layout:
    """Return the layout of a job that lists its PEs. Raises DocumentError, because a stored job may have bypassed validation."""
    if errors := list(map(str, job.errors())):
        raise DocumentError(f"job '{job.job}'", errors)
    pes = job.pes or {}
    order, _ = order_of(pes)
    lives = {name: {"lives_s": pe.lives_s} for name, pe in pes.items() if pe.lives_s is not None}
    return Layout(
        application=job.job,
        tasks=tuple(_light_task(name, pes[name], replicas=job.replicas.get(name, pes[name].replicas)) for name in order),
        settings={"pes": lives} if lives else {},
    )


def _light_task(name: str, pe: LightPe, *, replicas: int) -> Task:
    readings = []
    for stream in pe.reads:
        job, _, own_name = stream.rpartition(":")
        readings.append(Reading(stream=own_name, job=job or None))
    return Task(pe=name, kind="light", reads=tuple(readings), makes=pe.makes, replicas=replicas, shared=pe.shared)


class Parser(Plugin):
    """Parses jobs, at most two applications at a time."""

    action_names = ("parser.parse",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._slots = asyncio.Semaphore(MAX_PARSERS)

    async def parse(self, job: JobState, command: Command) -> None:
        """Compute the job's layout, then post `parsed`."""
        if job.document.pes is not None:
            job.layout = light_layout(job.document)
            self.orchestrator.post(job, "parsed", since=job.lifecycle.version)
            return
        self.orchestrator.run_in_background(job, command.name, self._parse_application(job, job.lifecycle.version))

    async def _parse_application(self, job: JobState, version: int) -> None:
        async with self._slots:
            trusted = self.orchestrator.settings.trust_applications
            job.layout = await run_parser(job.document, hidden=self._hidden(), trusted=trusted)
        self.orchestrator.post(job, "parsed", since=version)

    def _hidden(self) -> list[Path]:
        """Return what no application may read: tokens, the database and keys; nothing if applications are trusted."""
        settings = self.orchestrator.settings
        if settings.trust_applications:
            return []
        if not is_available():
            raise HoldfastError(
                "applications cannot be parsed, because this system cannot confine them (it has no Landlock, which Linux has since "
                "5.13); start the orchestrator with --trust-applications to parse them with the rights of its user"
            )
        database = self.orchestrator.persistence.database.file
        files = [database.with_name(f"{database.name}{suffix}") for suffix in ("", "-wal", "-shm")] if database is not None else []
        return [settings.work, *files, *settings.secrets]


async def run_parser(job: Job, *, hidden: Sequence[Path] = (), trusted: bool = False, limit_s: float = MAX_PARSE_S) -> Layout:
    """Return the layout of a job's application, computed by the parser process. Raises HoldfastError with the process's message.

    The process cannot read what is `hidden`. It has the orchestrator's environment only if the application is `trusted`. It and its
    children are killed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-parser-", ignore_cleanup_errors=True) as scratch:
        return await _run_parser(job, Path(scratch), hidden=hidden, trusted=trusted, limit_s=limit_s)


async def _run_parser(job: Job, scratch: Path, *, hidden: Sequence[Path], trusted: bool, limit_s: float) -> Layout:
    environment = {name: value for name, value in os.environ.items() if trusted or name in ENVIRONMENT}
    process = await asyncio.create_subprocess_exec(
        *PARSER,
        str(math.ceil(limit_s)),
        str(scratch),
        str(Path.home()),
        *(str(path.absolute()) for path in hidden),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=scratch,
        env={**environment, "HOME": str(scratch), "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(limit_s):
            _, out, err = await asyncio.gather(
                _send(job.model_dump_json().encode(), process.stdin), _read_answer(process), _read_end(process.stderr)
            )
            await process.wait()
    except TimeoutError:
        raise HoldfastError(f"job '{job.job}': its application was not parsed within {limit_s:g} s") from None
    finally:
        _kill_group(process)
        await process.wait()
        await _close_pipes(process.stdout, process.stderr)
    if len(out) > MAX_LAYOUT_BYTES:
        raise HoldfastError(f"job '{job.job}': wanted a layout of at most {MAX_LAYOUT_BYTES} bytes, got more; killed the parser")
    message = err.decode(errors="replace").strip()
    if process.returncode != 0:
        raise HoldfastError(message or f"job '{job.job}': the parser ended with {process.returncode} and printed nothing")
    return parse_document(out.decode(errors="replace"), Layout, thing=f"layout of job '{job.job}'", json_text=True)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill the parser and what it has started. Its group exists until all of them have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _close_pipes(*streams: asyncio.StreamReader) -> None:
    """Read what is left in the pipes of a killed process, because the event loop closes a pipe when it has been read to its end."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PIPE_END_S):
            for stream in streams:
                while await stream.read(READ_BYTES):
                    pass
    await asyncio.sleep(0)


async def _send(content: bytes, stream: asyncio.StreamWriter) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the process has ended; its message says why
        stream.write(content)
        await stream.drain()
    stream.close()


async def _read_answer(process: asyncio.subprocess.Process) -> bytes:
    """Return what a process prints. If that is longer than a layout may be, kill the process and return one byte too many."""
    assert process.stdout is not None
    answer = bytearray()
    while part := await process.stdout.read(READ_BYTES):
        answer += part[: MAX_LAYOUT_BYTES + 1 - len(answer)]
        if len(answer) > MAX_LAYOUT_BYTES:
            _kill_group(process)
    return bytes(answer)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    """Return the end of a stream, where the reason of a failure is."""
    end = b""
    while part := await stream.read(READ_BYTES):
        end = (end + part)[-MAX_MESSAGE_BYTES:]
    return end
