"""Run examples/kafka_averages.py from topic to topic on a broker of its own, kill a node and a source, and check the output.

Example: python -m scripts.demo_kafka        (after scripts/fetch_kafka.py; `make demo-kafka` does both)
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer
from tests.scenario.kafka_broker import JARS, Broker

from holdfast.protocol.client import find_client

EXAMPLE = Path(__file__).parents[1] / "examples" / "kafka_averages.py"
Trades = defaultdict[str, list[float]]
TICKERS = ("ABC", "DEF", "GHI", "JKL", "MNO", "PQR", "STU", "XYZ")
TRADES_PER_S = 80
TRADING_S, LIMIT_S = 20, 300
FAULTS = (
    {"at_s": 8, "kind": "crash", "what": "node", "target": ["n2"], "back_after_s": 2},
    {"at_s": 14, "kind": "crash", "what": "pe", "target": ["trades/0"]},
)


def main() -> None:
    if not JARS.exists():
        raise SystemExit("Apache Kafka is missing; run: make demo-kafka")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        folder = Path(name)
        print("starting a Kafka broker on loopback ...", flush=True)
        broker = Broker(folder)
        try:
            difference = run(broker, folder)
        finally:
            broker.kill()
    if difference is not None:
        raise SystemExit(difference)
    print("the topic 'averages' equals the averages of all trades, each once, although a node and a source were killed")


def run(broker: Broker, folder: Path) -> str | None:
    """Run the application under kills while trades arrive, until its output is complete. Return how the output differs."""
    for topic in ("trades", "averages"):
        broker.create_topic(topic, partitions=2)
    faults, work = folder / "faults.yaml", folder / "run"
    faults.write_text(json.dumps({"faults": FAULTS}))
    options = ["--nodes", "2", "--replicas", "moving_average=2", "--tentative-after", "1", "--no-verify", "--for", "3600"]
    command = [
        sys.executable,
        "-m",
        "holdfast.cli.main",
        "run",
        str(EXAMPLE),
        *options,
        "--faults",
        str(faults),
        "--work",
        str(work),
    ]
    process = subprocess.Popen(command, env={**os.environ, "KAFKA_SERVERS": broker.servers})
    try:
        trades = trade(broker, process)
        ends_s = time.monotonic() + LIMIT_S
        while (difference := compare(trades, broker)) is not None and process.poll() is None and time.monotonic() < ends_s:
            time.sleep(1.0)
        if process.poll() is None:
            find_client(str(work / "orchestrator")).cancel(1)
        if process.wait(60) != 0:
            return f"holdfast run ended with exit code {process.returncode}"
        return difference or compare(trades, broker)
    finally:
        process.kill()
        process.wait()


def trade(broker: Broker, process: subprocess.Popen[bytes]) -> Trades:
    """Write trades until TRADING_S after the first output, in transactions, and return them. A ticker has one partition."""
    rng = random.Random(1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": "market", "log_level": 2})
    producer.init_transactions()
    trades: Trades = defaultdict(list)
    seconds_left = TRADING_S
    while seconds_left and process.poll() is None:
        producer.begin_transaction()
        for _ in range(TRADES_PER_S):
            number, price = rng.randrange(len(TICKERS)), round(rng.uniform(10, 20), 2)
            trades[TICKERS[number]].append(price)
            value = json.dumps({"ticker": TICKERS[number], "price": price})
            producer.produce("trades", value.encode(), TICKERS[number].encode(), number % 2)
        producer.commit_transaction()
        time.sleep(1.0)
        seconds_left -= seconds_left < TRADING_S or bool(broker.messages("averages", partitions=2))
    return trades


def compare(trades: Trades, broker: Broker) -> str | None:
    """Compare the output with averages that are computed here. Return what differs."""
    messages = broker.messages("averages", partitions=2)
    corrected = {headers["epoch"] for headers, _ in messages if headers["kind"] == "final"}
    newest = [value for headers, value in messages if headers["kind"] == "final" or headers["epoch"] not in corrected]
    rows = [json.loads(value) for value in newest if value is not None]
    for ticker, prices in sorted(trades.items()):
        last = [prices[max(0, end - 5) : end] for end in range(1, len(prices) + 1)]
        output = sorted((row["seq"], row["price"], round(row["average"], 6)) for row in rows if row["ticker"] == ticker)
        if [row[1:] for row in output] != [(five[-1], round(sum(five) / len(five), 6)) for five in last]:
            return f"{ticker} has {len(prices)} trades, and its {len(output)} averages are not those of its trades"
    return None


if __name__ == "__main__":
    main()
