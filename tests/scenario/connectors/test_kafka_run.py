"""`holdfast run` from topic to topic, with a real broker, real Spark and SIGKILL."""

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict, deque

import pytest

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 600
APPLICATION = """
import os
from pyspark.sql import Window
from pyspark.sql import functions as F
from holdfast import App, KafkaWriter, last_rows

servers = os.environ["KAFKA_SERVERS"]
app = App("running-sums")
clicks = app.source(
    "clicks",
    "seq long, user string, n long",
    key="user",
    parallelism=2,
    kafka={"servers": servers, "topic": os.environ["KAFKA_INPUT"], "starting_offsets": "earliest"},
)

@app.operator(inputs=clicks, keep=last_rows(2, by="user"))
def sums(clicks):
    recent = Window.partitionBy("user").orderBy("seq").rowsBetween(-2, 0)
    return clicks.select("seq", "user", "n", F.sum("n").over(recent).alias("total"))

app.sink("totals", sums, writer=KafkaWriter(servers, os.environ["KAFKA_OUTPUT"], key="user"))
"""
USERS = [f"u{number}" for number in range(8)]


def expected(messages):
    """Return the totals per user: each is the sum of the user's last three numbers."""
    recent, totals = defaultdict(lambda: deque(maxlen=3)), defaultdict(list)
    for user, n in messages:
        recent[user].append(n)
        totals[user].append((n, sum(recent[user])))
    return totals


def newest(messages):
    """Return the totals per user of the newest version of each epoch, and how often each version of an epoch was written."""
    versions = defaultdict(list)
    for headers, value in messages:
        versions[int(headers["epoch"]), headers["kind"]].append(json.loads(value))
    totals = defaultdict(list)
    for epoch in sorted({epoch for epoch, _ in versions}):
        for row in sorted(versions.get((epoch, "final"), versions.get((epoch, "first"), [])), key=lambda row: row["seq"]):
            totals[row["user"]].append((row["n"], row["total"]))
    return totals


@pytest.fixture
def topics(broker, request):
    names = f"in-{request.node.name}", f"out-{request.node.name}"
    for name in names:
        broker.create_topic(name, partitions=2)
    return names


def run_with_faults(broker, topics, folder, faults, *, seconds, options=(), during=lambda: None):
    """Run the application while messages arrive. Return the messages and the run's document."""
    (folder / "app.py").write_text(APPLICATION)
    (folder / "faults.yaml").write_text(json.dumps(faults))
    names = dict(zip(("KAFKA_INPUT", "KAFKA_OUTPUT"), topics, strict=True))
    command = [
        "run",
        folder / "app.py",
        "--for",
        seconds,
        "--faults",
        folder / "faults.yaml",
        "--work",
        folder / "run",
        "--json",
        *options,
    ]
    process = subprocess.Popen(
        [*HOLDFAST, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAFKA_SERVERS": broker.servers, **names},
    )
    sent = []
    ended = threading.Event()

    def produce():
        while not ended.is_set() and len(sent) < 4000:
            batch = [(USERS[(len(sent) + i) % 8], len(sent) + i) for i in range(8)]
            for partition in (0, 1):
                values = [json.dumps({"user": u, "n": n}).encode() for u, n in batch if int(u[1:]) % 2 == partition]
                broker.produce(topics[0], values, partition=partition)
            sent.extend(batch)
            ended.wait(0.1)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        during()
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        ended.set()
        producer.join()
        process.kill()
    assert out, err[-3000:]
    return sent, json.loads(out)


def test_topic_to_topic_is_exactly_once_under_kills(broker, topics, tmp_path):
    faults = {
        "seed": 1,
        "faults": [
            {"at_s": 8, "kind": "crash", "what": "pe", "target": ["clicks/0"]},
            {"at_s": 12, "kind": "crash", "what": "node", "target": ["n2"], "back_after_s": 3},
            {"at_s": 16, "kind": "crash", "what": "pe", "target": ["totals/0"]},
        ],
    }
    options = ["--nodes", "2", "--replicas", "sums=2", "--replicas", "clicks=2", "--tentative-after", "1", "--no-verify"]
    sent, document = run_with_faults(broker, topics, tmp_path, faults, seconds=25, options=options)
    output = broker.messages(topics[1], partitions=2)
    totals, wanted = newest(output), expected(sent)
    lengths = {user: len(totals[user]) for user in USERS}
    assert sum(lengths.values()) > 200, document
    for user in USERS:
        assert totals[user] == wanted[user][: lengths[user]]
