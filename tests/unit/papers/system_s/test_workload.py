"""Workloads of System-S's experiments."""

import random

from holdfast.control.jobs.parser import light_layout
from holdfast_papers.system_s.workload import own_pes, realistic, uniform


def test_uniform_jobs_are_those_of_the_paper():
    jobs = uniform(30)
    assert own_pes(jobs) == 930
    layout = light_layout(jobs[0])
    read = {reading.stream for task in layout.tasks for reading in task.reads}
    assert sum(not task.reads for task in layout.tasks) == 1
    assert sum(not set(task.makes) & read for task in layout.tasks) == 13


def test_realistic_jobs_share_pes_and_streams():
    jobs = realistic(random.Random(1))
    assert (len(jobs), own_pes(jobs)) == (104, 737)
    shared = [pe.shared for job in jobs for pe in job.pes.values() if pe.shared]
    crossing = [stream for job in jobs for pe in job.pes.values() for stream in pe.reads if ":" in stream]
    assert len(shared) > 10
    assert len(crossing) > 20
    assert max(len(job.pes) for job in jobs) > 5 * sorted(len(job.pes) for job in jobs)[52]


def test_job_refers_only_to_earlier_jobs():
    streams, pes = set(), set()
    for job in realistic(random.Random(2)):
        for pe in job.pes.values():
            assert {stream for stream in pe.reads if ":" in stream} <= streams
            assert pe.shared is None or pe.shared in pes
        light_layout(job)
        streams |= {f"{job.job}:{stream}" for pe in job.pes.values() for stream in pe.makes}
        pes |= {f"{job.job}:{name}" for name, pe in job.pes.items() if pe.shared is None}


def test_same_seed_gives_the_same_jobs():
    assert realistic(random.Random(7)) == realistic(random.Random(7))
    assert realistic(random.Random(7)) != realistic(random.Random(8))
