"""From topic to topic: latency and throughput against plain Structured Streaming with Spark's Kafka source and sink.

    python benchmarks/kafka.py [--seconds 40] [--rows 300000] [--rounds 2] [--json]

Both sides read Bargain Discovery's events as JSON from one topic, and write the bargains as JSON to another, with a trigger (an
epoch) of one second, on one local Spark of two cores. holdfast writes each epoch in a transaction; Spark's sink has none. Latency
is the time from an event's transaction to the arrival of its bargain at a consumer, at 1,000 events per second. Throughput is that
of a burst: one transaction with --rows events, divided by the time until the last bargain has arrived. The sides alternate.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from plain_streaming import CONNECTOR
from tests.scenario.kafka_broker import JARS, Broker

from holdfast.documents.job import Job
from holdfast.job_layout import layout_of
from holdfast.trace import write_market
from holdfast.trial.job_run import run_job
from holdfast.trial.local_cluster import LocalCluster

RATE = 1000
PARTITIONS = 2
ROOT = Path(__file__).parents[1]
WARM_UP_S = 20
LIMIT_S = 600.0
SILENCE_S = 30.0
EXAMPLE = ROOT / "examples" / "bargain_discovery.py"
SIDES = ("ours", "theirs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not JARS.exists() or not CONNECTOR.exists():
        raise SystemExit("Apache Kafka or Spark's connector is missing; run: make kafka; python scripts/fetch_kafka.py connector")
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        live, burst = (WARM_UP_S + options.seconds) * RATE, options.rows
        trace = folder / "market.parquet"
        write_market(trace, events=live + burst, seed=1, rate=float(RATE), peak=1.1 * RATE)
        messages = read_messages(trace)
        (folder / "kafka").mkdir()
        broker = Broker(folder / "kafka")
        try:
            for number in range(options.rounds):
                for side in SIDES if number % 2 == 0 else reversed(SIDES):
                    work = folder / f"{side}-{number}"
                    result = measure(side, work, broker, messages[:live], messages[live:])
                    print(f"{side}: {result}", file=sys.stderr, flush=True)
                    results[side].append(result)
        finally:
            broker.kill()
    print_results(results, as_json=options.json)


def print_results(results: dict[str, list[dict[str, float]]], *, as_json: bool) -> None:
    ours, theirs = ({name: statistics.median(r[name] for r in results[side]) for name in results[side][0]} for side in SIDES)
    ratio = {name: ours[name] / theirs[name] for name in ("latency_s", "rows_per_s")}
    document = {
        "claim": "from topic to topic, the median latency is at most 1.0 times that of plain Structured Streaming with its Kafka "
        "source and sink, and the throughput at least 1.0 times",
        "settings": {"pyspark": pyspark.__version__, "connector": "spark-sql-kafka-0-10 4.2.0", "broker": "Apache Kafka 4.2.0"},
        "ours": ours,
        "theirs": theirs,
        "ratio": ratio,
        "bound": {"latency_s": 1.0, "rows_per_s": 1.0},
        "holds": ratio["latency_s"] <= 1.0 and ratio["rows_per_s"] >= 1.0,
    }
    if as_json:
        print(json.dumps(document, indent=2))
        return
    for side, figures in (("ours", ours), ("theirs", theirs)):
        latency = f"median latency {figures['latency_s']:.2f} s, 95 % within {figures['p95_s']:.2f} s"
        print(f"{side:6} {latency}, {figures['rows_per_s']:,.0f} rows/s")
    print(f"ratio  latency {ratio['latency_s']:.2f} (bound 1), throughput {ratio['rows_per_s']:.2f} (bound 1)")
    print("holds" if document["holds"] else "does not hold")


def read_messages(trace: Path) -> list[tuple[bytes, bytes, int]]:
    """Return the key, the value and the partition of each event."""
    tickers: dict[str, int] = {}
    messages = []
    for row in pq.read_table(trace).to_pylist():
        partition = tickers.setdefault(row["ticker"], len(tickers) % PARTITIONS)
        value = json.dumps({**row, "id": row["seq"], "time": row["time"].isoformat()}, separators=(",", ":")).encode()
        messages.append((row["ticker"].encode(), value, partition))
    return messages


def measure(side: str, work: Path, broker: Broker, live: list, burst: list) -> dict[str, float]:
    """Return the latency and the throughput of one side."""
    work.mkdir()
    topics = [f"{name}-{work.name}" for name in ("in", "out")]
    for topic in topics:
        broker.create_topic(topic, partitions=PARTITIONS)
    listener = Listener(broker, topics[1])
    feed = Feed(broker, topics[0])
    with (run_ours if side == "ours" else run_theirs)(work, broker, topics):
        began_s = time.time()
        for second in range(len(live) // RATE * 10):
            time.sleep(max(0.0, began_s + second / 10 - time.time()))
            feed.write(live[second * RATE // 10 : (second + 1) * RATE // 10])
        listener.wait_silent()
        latencies = listener.latencies(feed.sent_s, since_s=began_s + WARM_UP_S)
        sent_s = feed.write(burst)
        listener.wait_silent()
        seconds = listener.last_s - sent_s
    listener.stop()
    if not latencies:
        raise SystemExit(f"{side}: no bargain of an event after the warm-up has arrived within {SILENCE_S:g} s of the one before")
    return {
        "latency_s": statistics.median(latencies),
        "p95_s": sorted(latencies)[int(len(latencies) * 0.95)],
        "rows_per_s": len(burst) / seconds,
        "bargains": float(listener.count),
    }


class Feed:
    """Writes events to a topic in transactions, and remembers when each was committed."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic, self.sent_s = topic, []
        settings = {"bootstrap.servers": broker.servers, "transactional.id": topic, "transaction.timeout.ms": 120_000}
        self.producer = Producer({**settings, "queue.buffering.max.messages": 10_000_000, "linger.ms": 5})
        self.producer.init_transactions()

    def write(self, messages: list) -> float:
        """Write messages in one transaction, and return when it was committed."""
        self.producer.begin_transaction()
        for key, value, partition in messages:
            self.producer.produce(self.topic, value, key, partition)
        self.producer.commit_transaction()
        self.sent_s += [time.time()] * len(messages)
        return self.sent_s[-1]


class Listener(threading.Thread):
    """Consumes the bargains, and remembers the event and the time of arrival of each."""

    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": broker.servers, "group.id": topic, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 50})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self._stopping = threading.Event()
        self.arrived: list[tuple[bytes, float]] = []
        self.start()

    def run(self) -> None:
        while not self._stopping.is_set():
            batch = self._consumer.consume(10_000, timeout=0.05)
            now_s = time.time()
            self.arrived += [(message.value(), now_s) for message in batch if message.error() is None]
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    @property
    def count(self) -> int:
        return len(self.arrived)

    @property
    def last_s(self) -> float:
        return self.arrived[-1][1]

    def wait_silent(self) -> None:
        """Wait until bargains have arrived, and then none for SILENCE_S."""
        known, deadline_s = self.count, time.time() + LIMIT_S
        while self.count == known or time.time() - self.last_s < SILENCE_S:
            if time.time() > deadline_s:
                raise SystemExit("no output, or no end of it")
            time.sleep(0.2)

    def latencies(self, sent_s: list[float], *, since_s: float) -> list[float]:
        """Return the latencies of the bargains whose event was sent after a time. Events are numbered from 1 in the trace."""
        pairs = [(sent_s[int(json.loads(value)["id"]) - 1], at_s) for value, at_s in list(self.arrived)]
        return [at_s - sent for sent, at_s in pairs if sent >= since_s]


def write_application(folder: Path, broker: Broker, topics: list[str]) -> Path:
    """Write the example with all operators in one PE, and with the number of the event in the bargains."""
    source = {"servers": broker.servers, "topic": topics[0], "starting_offsets": "earliest"}
    writer = f'KafkaWriter({broker.servers!r}, {topics[1]!r}, key="ticker")'
    text = EXAMPLE.read_text()
    for old, new in (
        ("@app.operator(", '@app.operator(pe="all", '),
        ('key="ticker",\n)', f'key="ticker",\n    kafka={source!r},\n)'),
        ('"seq long, time', '"seq long, id long, time'),
        ('select("seq", ', 'select("seq", "id", '),
        ('        "seq",\n', '        "seq",\n        "id",\n'),
        ("import App,", "import App, KafkaWriter,"),
        ("bargain_index)\napp.score", f"bargain_index, writer={writer})\napp.score"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "app.py"
    path.write_text(text)
    return path


@contextmanager
def run_ours(work: Path, broker: Broker, topics: list[str]) -> Iterator[None]:
    app = write_application(work, broker, topics)
    job = Job(job="bargains", type="streaming", application=str(app), log=str(work / "log"))
    with LocalCluster(work / "cluster", nodes=1, cores=2.0, memory="2g") as cluster:
        cluster.start()
        began, ended = threading.Event(), threading.Event()

        def show(document, nodes, timeline) -> None:  # type: ignore[no-untyped-def]  # as run_job calls it
            if timeline is not None:
                began.set()
            if ended.is_set():
                cluster.client.cancel(document["id"])
                ended.clear()

        thread = threading.Thread(target=lambda: run_job(job, layout_of(job), cluster, show=show))
        thread.start()
        began.wait()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def run_theirs(work: Path, broker: Broker, topics: list[str]) -> Iterator[None]:
    plain = Path(__file__).with_name("plain_streaming.py")
    command = [sys.executable, str(plain), "--kafka", broker.servers, "--topics", *topics, "--work", str(work)]
    with (work / "rival.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not (work / "ready").exists():
            if process.poll() is not None:
                raise SystemExit(f"the rival ended: {(work / 'rival.log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
