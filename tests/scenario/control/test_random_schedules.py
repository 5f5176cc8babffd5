"""Random schedules of faults on real processes: leader, standby, nodes and database are killed, stopped and made read-only.

After each schedule: no acknowledged call is lost, no job is lost or canceled by a fault, and no PE was started twice in one
incarnation.
"""

import random
import time
from contextlib import suppress

import pytest

from holdfast.documents.job import Job
from holdfast.protocol.client import Client, ClientError, OrchestratorUnreachable

from .failover_cluster import FailoverCluster

NODES = ("n1", "n2", "n3")
STEPS = 6
SETTLED_S = 90.0


class Schedule:
    """One random schedule on a running cluster, and the calls that were acknowledged during it."""

    def __init__(self, cluster, server, seed):
        self.cluster, self.server, self.seed, self.rng = cluster, server, seed, random.Random(seed)
        self.submitted: dict[str, int] = {}
        self.canceled: set[str] = set()
        self.undo: list = []

    def play(self):
        """Inject faults and make calls, in random order; then repair everything."""
        faults = [self.kill, self.stop, self.restart_database, self.make_read_only, self.break_connections]
        try:
            for step in range(STEPS):
                self.rng.choice(faults)()
                self.call(step)
                if self.undo and self.rng.random() < 0.5:
                    self.undo.pop(self.rng.randrange(len(self.undo)))()
        finally:
            while self.undo:
                self.undo.pop()()

    def kill(self):
        name = self.rng.choice(["a", "b", *NODES])
        if name not in self.cluster.stopped:
            self.cluster.kill(name)
            self.cluster.start(name)

    def stop(self):
        name = self.rng.choice(["a", "b", *NODES])
        if name not in self.cluster.stopped:
            self.cluster.stop(name)
            self.undo.append(lambda: self.cluster.resume(name) if name in self.cluster.stopped else None)

    def restart_database(self):
        self.server.stop()
        self.server.start()

    def make_read_only(self):
        self.server.set_read_only(True)
        self.undo.append(lambda: self.server.set_read_only(False))

    def break_connections(self):
        self.server.terminate_connections()

    def call(self, step):
        """Submit or cancel a job. Only an acknowledged call must have an effect."""
        name = f"s{self.seed}-{step}"
        living = sorted(set(self.submitted) - self.canceled)
        with Client(self.cluster.urls, "user-secret") as client, suppress(OrchestratorUnreachable, ClientError):
            client._http.timeout = 3.0
            if living and self.rng.random() < 0.3:
                canceled = self.rng.choice(living)
                client._call("POST", f"/v1/jobs/{self.submitted[canceled]}/cancel", json={}, limit_s=3.0)
                self.canceled.add(canceled)
            else:
                answer = client._call("POST", "/v1/jobs", json=job(name), limit_s=3.0)
                self.submitted[name] = int(answer["id"])

    def errors(self):
        """Return what the cluster does not show yet."""
        jobs = {line["name"]: line for line in self.cluster.client.all_jobs() if line["name"].startswith(f"s{self.seed}-")}
        for name, number in self.submitted.items():
            if name not in jobs or jobs[name]["id"] != number:
                yield f"{name}: its submission was acknowledged as job {number}, and it does not exist"
        for name, line in sorted(jobs.items()):
            wanted = {"canceled"} if name in self.canceled else {"running", "canceled"}
            if line["state"] not in wanted or (line["state"] == "canceled" and line["reason"] != "canceled by a user"):
                yield f"{name} is {line['state']}: {line['reason']}"
        states = self.cluster.client.status()["replica_states"]
        if set(states) - {"running"}:
            yield f"replicas are {states}"


def job(name):
    pes = {"x": {"makes": ["s"], "replicas": 2}, "y": {"reads": ["s"]}}
    return Job.model_validate({"job": name, "host_kind": "light", "pes": pes, "policy": {"backoff_s": 0.1}}).model_dump(
        mode="json", exclude_defaults=True
    )


def check(cluster, schedule):
    """Wait until nothing is missing. A replica's incarnation is started once, and a killed PE host starts it in the next one."""
    ends_s, errors = time.monotonic() + SETTLED_S, ["nothing was read yet"]
    while errors and time.monotonic() < ends_s:
        try:
            errors = list(schedule.errors()) if cluster.serves() else ["no orchestrator serves"]
        except (OrchestratorUnreachable, ClientError) as error:
            errors = [str(error)]
        time.sleep(0.1)
    assert not errors, (schedule.seed, errors, cluster.last_log_lines("a"), cluster.last_log_lines("b"))
    twice = {start: count for start, count in cluster.starts().items() if count > 1}
    assert not twice, (schedule.seed, twice)


def run_schedules(server, tmp_path, seeds):
    with FailoverCluster(tmp_path, server.database(f"schedules_{tmp_path.name}")) as cluster:
        cluster.start("a")
        cluster.wait_until(cluster.serves, limit_s=60)
        cluster.start("b")
        for name in NODES:
            cluster.start(name)
        cluster.wait_for_nodes(len(NODES))
        for seed in seeds:
            schedule = Schedule(cluster, server, seed)
            schedule.play()
            check(cluster, schedule)
            for line in list(cluster.client.all_jobs(state="living")):
                cluster.client.cancel(line["id"])


def test_random_faults_lose_no_call_and_start_no_pe_twice(server, tmp_path):
    run_schedules(server, tmp_path, range(5))


@pytest.mark.long
def test_hundred_random_schedules_lose_no_call_and_start_no_pe_twice(server, tmp_path):
    run_schedules(server, tmp_path, range(100, 200))
