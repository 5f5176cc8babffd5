"""What an orchestrator that is not the leader any more does not do."""

import asyncio

from .conftest import cluster


async def test_orchestrator_that_has_ended_processes_no_event(settings):
    async with cluster(settings, "n1") as (control, _):
        orchestrator = control.orchestrator
        job = orchestrator.jobs[await control.submit()]
        await control.reaches(job.id, "running")
        job.run_in_background(asyncio.sleep(3600))
        waiting = set(job.background)
        orchestrator.stop()
        orchestrator.post(job, "cancel")  # such as a restart whose delay ends now
        assert job.worker is None or job.worker.done()
        while not all(task.cancelled() for task in waiting):
            await asyncio.sleep(0.01)
        assert job.lifecycle.state == "running"
