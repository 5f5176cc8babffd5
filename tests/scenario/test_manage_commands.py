"""The commands that speak with an orchestrator, as a user types them."""

import json
import subprocess

from holdfast.manage.cluster import HOLDFAST, Cluster

JOB = """
job: a
host: light
pes:
  x: {makes: [s], replicas: 2}
  y: {reads: [s]}
"""


def holdfast(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def test_a_job_is_submitted_watched_listed_told_and_canceled(tmp_path):
    document = tmp_path / "job.yaml"
    document.write_text(JOB)
    with Cluster(tmp_path) as cluster:
        cluster.start_orchestrator()
        cluster.start_node("n1")
        cluster.start_node("n2")
        cluster.wait_for_nodes(2)
        at = ("--orchestrator", cluster.folder)

        done = holdfast("submit", document, *at, "--wait", 30)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        assert "job 1 (a) is submitted" in done.stderr

        again = holdfast("submit", document, *at)
        assert (again.returncode, again.stdout) == (2, "")
        assert "holdfast: job 'a' is there already, as job 1 (running); cancel it or choose another name" in again.stderr

        other = holdfast("submit", document, *at, "--name", "b", "--wait", 30, "--json")
        assert (json.loads(other.stdout)["name"], json.loads(other.stdout)["state"]) == ("b", "running")

        listed = json.loads(holdfast("jobs", *at, "--json").stdout)["jobs"]
        assert [(job["id"], job["state"]) for job in listed] == [(2, "running"), (1, "running")]

        story = holdfast("job", 1, *at).stdout
        for words in ("job 1 'a' (streaming, light): running", "running       by started", "y/0 reads s", ".0 on n1: running"):
            assert words in story

        done = holdfast("cancel", 1, *at, "--wait", 30)
        assert (done.returncode, done.stderr) == (0, "job 1 is canceled\n")
        ended = holdfast("cancel", 1, *at)
        assert (ended.returncode, ended.stderr) == (2, "holdfast: job 1 is canceled: it has ended\n")
        unknown = holdfast("job", 99, *at)
        assert (unknown.returncode, unknown.stderr) == (2, "holdfast: job 99 does not exist; 'holdfast jobs' lists them\n")
        assert "canceled by a user" in holdfast("jobs", "--all", *at).stdout


def test_a_job_that_cannot_run_says_why_with_code_1_and_a_wrong_document_with_code_2(tmp_path):
    document = tmp_path / "job.yaml"
    document.write_text(JOB)
    with Cluster(tmp_path, serve_options=("--capacity-wait", "0")) as cluster:
        cluster.start_orchestrator()
        assert cluster.client.health()["nodes"] == 0
        done = holdfast("submit", document, "--orchestrator", cluster.folder, "--wait", 20)
        assert done.returncode == 1
        assert "no capacity: task 'x/0' wants 2 nodes for its replicas and 0 of kind 'light' are up" in done.stderr
        document.write_text("job: a b\nhost: light\npes: {x: {replicas: 0}}\n")
        done = holdfast("submit", document, "--orchestrator", cluster.folder)
        assert done.returncode == 2
        assert "job.yaml has 2 problems" in done.stderr
        assert "Traceback" not in done.stderr


def test_without_an_orchestrator_every_command_says_how_to_start_one(tmp_path):
    for words in (["jobs"], ["job", "1"], ["cancel", "1"]):
        done = holdfast(*words, "--orchestrator", tmp_path / "none")
        assert done.returncode == 2
        assert "start one with 'holdfast serve" in done.stderr
