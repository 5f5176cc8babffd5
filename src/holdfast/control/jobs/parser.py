"""Taking a job apart into tasks: light jobs here, all others in a process of their own that may import the application."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

from holdfast.control.plugins import Plugin
from holdfast.documents.document import parse_document
from holdfast.documents.job import Job, Layout, Reading, Task
from holdfast.documents.light_pe import LightPe, order_of
from holdfast.errors import DocumentError, HoldfastError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command

PARSE_S = 180.0
AT_ONCE = 2
MAX_LAYOUT_BYTES = 16 * 1024 * 1024
MAX_SAID_BYTES = 4000
READ_BYTES = 64 * 1024
PARSER = (sys.executable, "-m", "holdfast.job_layout")
"""The process that is given a job as JSON and answers with its layout: exit code 0, or 2 and what is wrong with the job.
Its argument says in how many seconds."""


def light_layout(job: Job) -> Layout:
    """The layout of a job whose PEs are written out in it. Raises DocumentError: one that was kept may have been taken unseeing."""
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
        job, _, of = stream.rpartition(":")
        readings.append(Reading(stream=of, job=job or None))
    return Task(pe=name, kind="light", reads=tuple(readings), makes=pe.makes, replicas=replicas, shared=pe.shared)


class Parser(Plugin):
    """Parses jobs, at most a few applications at a time."""

    action_names = ("parser.parse",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def parse(self, job: JobState, command: Command) -> None:
        """Find the job's layout; on to `parsed`."""
        if job.document.pes is not None:
            job.layout = light_layout(job.document)
            self.orchestrator.post(job, "parsed", since=job.lifecycle.version)
            return
        self.orchestrator.run_in_background(job, command.name, self._parse_application(job, job.lifecycle.version))

    async def _parse_application(self, job: JobState, moves: int) -> None:
        async with self._turn:
            job.layout = await run_parser(job.document)
        self.orchestrator.post(job, "parsed", since=moves)


async def run_parser(job: Job, *, limit_s: float = PARSE_S) -> Layout:
    """The layout of a job's application, found by the parser's process. Raises HoldfastError with what that says."""
    process = await asyncio.create_subprocess_exec(
        *PARSER,
        str(math.ceil(limit_s)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(limit_s):
            _, out, err = await asyncio.gather(
                _give(job.model_dump_json().encode(), process.stdin), _first(process), _last(process.stderr)
            )
            await process.wait()
    except TimeoutError:
        raise HoldfastError(f"job '{job.job}': its application was not understood within {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if len(out) > MAX_LAYOUT_BYTES:
        raise HoldfastError(f"job '{job.job}': wanted a layout of at most {MAX_LAYOUT_BYTES} bytes, got more, and ended the parser")
    said = err.decode(errors="replace").strip()
    if process.returncode != 0:
        raise HoldfastError(said or f"job '{job.job}': the parser ended with {process.returncode} and said nothing")
    return parse_document(out.decode(errors="replace"), Layout, thing=f"layout of job '{job.job}'", json_text=True)


async def _give(content: bytes, stream: asyncio.StreamWriter) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended already: what it said tells why
        stream.write(content)
        await stream.drain()
    stream.close()


async def _first(process: asyncio.subprocess.Process) -> bytes:
    """What a process answers; of one that answers more than a layout can have, a byte too many, and it is killed."""
    assert process.stdout is not None
    answer = bytearray()
    while part := await process.stdout.read(READ_BYTES):
        answer += part[: MAX_LAYOUT_BYTES + 1 - len(answer)]
        if len(answer) > MAX_LAYOUT_BYTES and process.returncode is None:
            process.kill()
    return bytes(answer)


async def _last(stream: asyncio.StreamReader) -> bytes:
    """The end of what comes: where there is much of it, that is where the reason stands."""
    said = b""
    while part := await stream.read(READ_BYTES):
        said = (said + part)[-MAX_SAID_BYTES:]
    return said
