"""Bargain Discovery from Kafka to Kafka and to a Delta table on real processes, which are killed while messages arrive."""

import json
import random
import threading
import time
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
from confluent_kafka import KafkaException, Producer

from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Job
from holdfast.job_layout import layout_of
from holdfast.trial.job_run import run_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "bargain_discovery.py"
PARTITIONS = 4
BATCHES_PER_S = 5
BATCH_ROWS = 60
LIMIT_S = 300.0
CRASHES = (
    ("pe", ["market/0"], None),
    ("pe", ["averages/0"], None),
    ("pe", ["bargains/0"], None),
    ("pe", ["table/0"], None),
    ("node", ["n1"], 2.0),
    ("orchestrator", [], 1.0),
)


def write_application(folder, broker, topics, table):
    """Write the example with a Kafka source, two PEs, and its stream to a topic and to a table."""
    kafka = {"servers": broker.servers, "topic": topics[0], "starting_offsets": "earliest"}
    kafka |= {"on_bad_message": "dead_letter", "dead_letter_topic": topics[2]}
    sinks = (
        f'app.sink("bargains", bargain_index, writer=KafkaWriter({broker.servers!r}, {topics[1]!r}, key="ticker"))\n'
        f'app.sink("table", bargain_index, writer=DeltaWriter({str(table)!r}))'
    )
    text = EXAMPLE.read_text()
    for old, new in (
        ('key="ticker",\n)', f'key="ticker",\n    parallelism=2,\n    kafka={kafka!r},\n)'),
        ("@app.operator(inputs=[", '@app.operator(pe="index", inputs=['),
        ("@app.operator(inputs=", '@app.operator(pe="averages", inputs='),
        ('app.sink("bargains", bargain_index)', sinks),
        ("import App,", "import App, DeltaWriter, KafkaWriter,"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = folder / "app.py"
    path.write_text(text)
    return path


def bargains_per_ticker(rows):
    """Return the gains of each ticker in the order of seq. The seqs themselves depend on when the messages arrived."""
    gains = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seq"]):
        gains[row["ticker"]].append(row["gain"])
    return dict(gains)


def newest_of_topic(messages):
    """Return the rows of the newest version of each epoch in a topic. No version may have a row twice."""
    versions = defaultdict(list)
    for headers, value in messages:
        version = versions[int(headers["epoch"]), headers["kind"]]
        version += [json.loads(value)] if value is not None else []  # a correction without rows
    for version, rows in versions.items():
        repeated = [seq for seq, count in Counter(row["seq"] for row in rows).items() if count > 1]
        assert not repeated, f"epoch and kind {version} were written more than once: seqs {repeated[:5]}"
    epochs = {epoch for epoch, _ in versions}
    return [row for epoch in epochs for row in versions.get((epoch, "final"), versions.get((epoch, "first"), []))]


def rows_of_table(table):
    """Return the rows of a Delta table, none of which may be there twice."""
    if not deltalake.DeltaTable.is_deltatable(str(table)):
        return []
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert len({row["seq"] for row in rows}) == len(rows), "rows of an epoch were written more than once"
    return rows


class Feed(threading.Thread):
    """Writes a trace to a topic in transactions, some of which it aborts and repeats. A ticker's rows are in one partition.

    Each transaction also has a message that cannot be parsed.
    """

    def __init__(self, broker, topic, trace, rng):
        super().__init__(daemon=True)
        self._topic, self._rng = topic, rng
        self._rows = [{**row, "time": row["time"].isoformat()} for row in pq.read_table(trace).to_pylist()]
        settings = {"bootstrap.servers": broker.servers, "transactional.id": f"feed-{topic}", "log_level": 0}
        self._producer = Producer(settings)
        self.bad = Counter(f"bad {start}".encode() for start in range(0, len(self._rows), BATCH_ROWS))
        self.error = None

    def run(self):
        try:
            self._producer.init_transactions()
            for start in range(0, len(self._rows), BATCH_ROWS):
                if self._rng.random() < 0.2:
                    self._write(start, commit=False)
                self._write(start, commit=True)
                time.sleep(1 / BATCHES_PER_S)
        except Exception as error:
            self.error = error

    def _write(self, start, *, commit):
        producer = self._producer
        producer.begin_transaction()
        for row in self._rows[start : start + BATCH_ROWS]:
            ticker = row["ticker"].encode()
            producer.produce(self._topic, json.dumps(row).encode(), ticker, zlib.crc32(ticker) % PARTITIONS)
        producer.produce(self._topic, f"bad {start}".encode(), None, start // BATCH_ROWS % PARTITIONS)
        self._end(producer.commit_transaction if commit else producer.abort_transaction)

    def _end(self, end_transaction):
        while True:
            try:
                return end_transaction()
            except KafkaException as error:  # the broker is down
                if not error.args[0].retriable():
                    raise


class BrokerCrash(threading.Thread):
    """Kills the broker after a while, and starts it again."""

    def __init__(self, broker, after_s, down_s):
        super().__init__(daemon=True)
        self._broker, self._after_s, self._down_s = broker, after_s, down_s

    def run(self):
        time.sleep(self._after_s)
        self._broker.kill()
        time.sleep(self._down_s)
        self._broker.restart()


class Campaign:
    """One run of the application under the kills of a seed: source, PE, both sinks, a node, the orchestrator and the broker."""

    def __init__(self, cluster, broker, folder, *, seed, trace, wanted):
        self._cluster, self._broker, self._folder, self._trace, self._wanted = cluster, broker, folder, trace, wanted
        self._rng, self._seed = random.Random(seed), seed
        self._topics = tuple(f"{name}-{folder.name}" for name in ("market", "bargains", "bad"))
        self._table = folder / "table"
        self._threads = []
        self._ends_s = self._canceled = None
        self.differences = {"all": "not compared"}

    def play(self):
        """Run until the output equals the batch run, or until LIMIT_S after the last message; then compare once more."""
        for topic in self._topics:
            self._broker.create_topic(topic, partitions=PARTITIONS)
        app = write_application(self._folder, self._broker, self._topics, self._table)
        job = Job(
            job=f"bargains-{self._seed}",
            type="streaming",
            application=str(app),
            log=str(self._folder / "log"),
            replicas={"averages": 2, "market": 2},
            contract={"tentative_after_s": 1.0},
        )
        run = run_job(job, layout_of(job), self._cluster, schedule=self._schedule(), show=self._follow)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert run.state == "canceled", run.reason
        self._compare()
        assert not any(self.differences.values()), (f"seed {self._seed}", self.differences)
        return run

    def _schedule(self):
        seconds = len(pq.read_table(self._trace)) / BATCH_ROWS / BATCHES_PER_S
        times = sorted(self._rng.uniform(3, seconds) for _ in CRASHES)
        crashes = self._rng.sample(CRASHES, len(CRASHES))
        return Schedule(
            faults=[
                {"at_s": at_s, "kind": "crash", "what": what, "target": target, "back_after_s": back_after_s}
                for at_s, (what, target, back_after_s) in zip(times, crashes, strict=True)
            ]
        )

    def _follow(self, document, nodes, timeline):
        """Start to write messages when the job has begun, and cancel it when its output is complete."""
        if timeline is None:
            return
        if not self._threads:
            feed = Feed(self._broker, self._topics[0], self._trace, self._rng)
            self._threads = [feed, BrokerCrash(self._broker, self._rng.uniform(3, 12), self._rng.uniform(0, 3))]
            for thread in self._threads:
                thread.start()
        if self._canceled or any(thread.is_alive() for thread in self._threads):
            return
        assert self._threads[0].error is None, self._threads[0].error
        self._ends_s = self._ends_s or time.monotonic() + LIMIT_S
        self._compare()
        if not any(self.differences.values()) or time.monotonic() > self._ends_s:
            self._cluster.client.cancel(document["id"])
            self._canceled = True

    def _compare(self):
        topic = newest_of_topic(self._broker.messages(self._topics[1], partitions=PARTITIONS))
        wanted = self._threads[0].bad
        bad = Counter(value for _, value in self._broker.messages(self._topics[2], partitions=PARTITIONS))
        self.differences = {
            "topic": self._difference(topic),
            "table": self._difference(rows_of_table(self._table)),
            "dead letters": (bad - wanted, wanted - bad) if bad != wanted else None,
        }

    def _difference(self, rows):
        """Return the first ticker whose bargains differ from the batch run, with both; None if all are equal."""
        output = bargains_per_ticker(rows)
        for ticker in sorted(self._wanted | output):
            if self._wanted.get(ticker) != output.get(ticker):
                return ticker, {"wanted": self._wanted.get(ticker), "output": output.get(ticker)}
        return None
