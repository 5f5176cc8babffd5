"""Jobs of light PEs as in System-S's experiments (section 6), generated from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast.documents import Job, LightPe

PES_A_JOB, SINKS_A_JOB = 31, 13
"""Section 6.1: each job has 31 PEs, among them one source and 13 sinks."""
REAL_JOBS, REAL_PES = 104, 737
"""Section 6.1: the set that resembles real systems."""
SHARING, CROSSING = 0.3, 0.4
"""The shares of realistic jobs that use a PE of another job, and that read a stream of another job. The paper states neither."""


def fan_out(name: str, *, pes: int = PES_A_JOB, sinks: int = SINKS_A_JOB) -> Job:
    """Return a job of one source, some sinks, and a tree between them: PE n reads PE n/2, and each sink reads a leaf of the tree.

    >>> job = fan_out("a")
    >>> len(job.pes), sum(not pe.reads for pe in job.pes.values()), sum(not pe.makes for pe in job.pes.values())
    (31, 1, 13)
    """
    inner = pes - sinks
    pe_of = {"pe001": LightPe(makes=("s001",))}
    for number in range(2, inner + 1):
        pe_of[f"pe{number:03}"] = LightPe(reads=(f"s{number // 2:03}",), makes=(f"s{number:03}",))
    for index in range(sinks):
        source = inner - index % max(1, inner // 2)  # the leaves of the tree, in turn
        pe_of[f"pe{inner + 1 + index:03}"] = LightPe(reads=(f"s{source:03}",))
    return Job(job=name, host_kind="light", pes=pe_of)


def uniform(jobs: int, *, pes: int = PES_A_JOB) -> list[Job]:
    """Return jobs of the shape of section 6.1."""
    return [fan_out(f"job{number:04}", pes=pes) for number in range(1, jobs + 1)]


def realistic(rng: random.Random, *, jobs: int = REAL_JOBS, pes: int = REAL_PES) -> list[Job]:
    """Return jobs of very different sizes that share PEs and read each other's streams, with `pes` distinct PEs in total.

    A job refers only to jobs before it, so they can be submitted in this order.
    """
    job_list: list[Job] = []
    for number, size in enumerate(sizes(rng, parts=jobs, total=pes), start=1):
        job_list.append(_linked_job(f"rws{number:03}", size, job_list, rng))
    return job_list


def sizes(rng: random.Random, *, parts: int, total: int) -> list[int]:
    """Return whole numbers of at least 1 that add up to `total`: most small, a few large.

    >>> numbers = sizes(random.Random(1), parts=104, total=737)
    >>> sum(numbers), min(numbers) >= 1, max(numbers) > 30
    (737, True, True)
    """
    weights = [rng.paretovariate(1.2) for _ in range(parts)]
    free = total - parts
    exact = [free * weight / sum(weights) for weight in weights]
    whole = [int(share) for share in exact]
    by_rest = sorted(range(parts), key=lambda part: (whole[part] - exact[part], part))
    for part in by_rest[: free - sum(whole)]:
        whole[part] += 1
    return [1 + share for share in whole]


def _linked_job(name: str, size: int, before: Sequence[Job], rng: random.Random) -> Job:
    """Return a job of `size` own PEs that may also share a PE of an earlier job or read one of its streams."""
    pes: dict[str, LightPe] = {}
    entry: tuple[str, ...] = ()
    if before and rng.random() < CROSSING:
        other = rng.choice(before)
        streams = sorted(stream for pe in (other.pes or {}).values() for stream in pe.makes)
        entry = (f"{other.job}:{rng.choice(streams)}",)
    for number in range(1, size + 1):
        reads = entry if number == 1 else (f"s{rng.randrange(1, number):03}",)
        pes[f"pe{number:03}"] = LightPe(reads=reads, makes=(f"s{number:03}",))
    if before and rng.random() < SHARING:
        other = rng.choice(before)
        own = sorted(pe for pe, light in (other.pes or {}).items() if light.shared is None)
        pes["shared"] = LightPe(shared=f"{other.job}:{rng.choice(own)}")
    return Job(job=name, host_kind="light", pes=pes)


def own_pes(jobs: Sequence[Job]) -> int:
    """Return the number of PEs of the jobs, counting a shared PE once."""
    return sum(pe.shared is None for job in jobs for pe in (job.pes or {}).values())
