"""The commands that call an orchestrator, as a user types them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster

JOB = """
job: a
host_kind: light
pes:
  x: {makes: [s], replicas: 2}
  y: {reads: [s]}
"""


def holdfast(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def completed(cluster: ProcessCluster, command: str, begun: str = "") -> list[str]:
    """Return what the shell completes for a command and the beginning of its argument."""
    asked = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": f"holdfast {command} {begun}", "COMP_CWORD": "2"}
    where = {"HOLDFAST_URL": str(cluster.folder)}
    script = [str(Path(sys.executable).with_name("holdfast"))]
    done = subprocess.run(script, env={**os.environ, **asked, **where}, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """An orchestrator without nodes."""
    with ProcessCluster(tmp_path_factory.mktemp("commands"), serve_options=("--capacity-wait", "0")) as running:
        running.start_orchestrator()
        yield running


def test_failed_job_exits_with_1_and_invalid_document_with_2(cluster, tmp_path):
    at = ("--orchestrator", cluster.folder)
    document = tmp_path / "job.yaml"
    document.write_text(JOB)
    assert cluster.client.status()["nodes"] == 0
    assert holdfast("nodes", *at).stdout == "no nodes; start one with 'holdfast node'\n"
    done = holdfast("submit", document, *at, "--wait", 20)
    assert done.returncode == 1
    assert "no capacity: task 'x/0' wants 2 nodes for its replicas and 0 of kind 'light' are up" in done.stderr
    document.write_text("job: a b\ntype: forever\napplication: /no/such.py\nreplicas: {x: 0}\nfeed: {speed: .nan}\n")
    done = holdfast("submit", document, *at)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"holdfast: {document} has 6 errors:",
        '  - feed.speed (line 5): wanted a number, got "NaN"',
        "  - job (line 1): wanted a name of letters, digits, '_', '.', '-' (at most 100), got \"a b\"",
        "  - log (line 1): is missing; give a folder or an object store's URL that all nodes of the job can reach",
        "  - replicas.x (line 4): wanted a number from 1 to 1000, got 0",
        "  - type (line 2): there is no type 'forever'; types are: finite, streaming",
        "  - application (line 3): '/no/such.py' is not a file that the orchestrator can read",
    ]


def test_job_is_submitted_watched_listed_shown_and_canceled(cluster, tmp_path):
    document = tmp_path / "job.yaml"
    document.write_text(JOB)
    cluster.start_node("n1")
    cluster.start_node("n2")
    cluster.wait_for_nodes(2)
    at = ("--orchestrator", cluster.folder)

    done = holdfast("submit", document, *at, "--wait", 30)
    assert done.returncode == 0, done.stderr
    first = int(done.stdout)
    assert f"job {first} (a) is submitted" in done.stderr

    again = holdfast("submit", document, *at)
    assert (again.returncode, again.stdout) == (2, "")
    assert f"holdfast: job 'a' exists already, as job {first} (running); cancel it or choose another name" in again.stderr

    other = holdfast("submit", document, *at, "--name", "b", "--wait", 30, "--json")
    assert (json.loads(other.stdout)["name"], json.loads(other.stdout)["state"]) == ("b", "running")

    listed = json.loads(holdfast("jobs", *at, "--json").stdout)["jobs"]
    assert [(job["id"], job["state"]) for job in listed] == [(first + 1, "running"), (first, "running")]

    story = holdfast("job", first, *at).stdout
    for words in (f"job {first} 'a' (streaming, light): running", "running       by started", "y/0 reads s", ".0 on n1: running"):
        assert words in story

    assert completed(cluster, "cancel") == [f"plain,{first + 1}", f"plain,{first}"]
    assert completed(cluster, "drain", "n") == ["plain,n1", "plain,n2"]

    stuck = holdfast("drain", "n1", *at, "--wait", 1)
    assert stuck.returncode == 1
    assert "holdfast: node 'n1' is draining and has " in stuck.stderr
    assert "cannot leave n1: every other node of kind 'light' is full or has another replica of the same task" in stuck.stderr
    assert holdfast("drain", "n1", "--undo", *at).returncode == 0

    done = holdfast("cancel", first, *at, "--wait", 30)
    assert (done.returncode, done.stderr) == (0, f"job {first} is canceled\n")
    ended = holdfast("cancel", first, *at)
    assert (ended.returncode, ended.stderr) == (2, f"holdfast: job {first} is canceled: it has ended\n")
    unknown = holdfast("job", 99, *at)
    assert (unknown.returncode, unknown.stderr) == (2, "holdfast: job 99 does not exist; 'holdfast jobs' lists them\n")
    assert "canceled by a user" in holdfast("jobs", "--all", *at).stdout


def test_every_command_without_an_orchestrator_says_how_to_start_one(tmp_path):
    for words in (["jobs"], ["job", "1"], ["cancel", "1"]):
        done = holdfast(*words, "--orchestrator", tmp_path / "none")
        assert done.returncode == 2
        assert "start one with 'holdfast serve" in done.stderr
