"""Fetch Apache Kafka's broker from Maven Central, with the resolver that PySpark brings. The tests and `make demo-kafka` start it.

Example: python scripts/fetch_kafka.py              (into the kafka folder of the virtual environment)
         python scripts/fetch_kafka.py connector    (Spark's Kafka connector, which benchmarks/kafka.py compares with)
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "kafka"
TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
PACKAGES = {
    "broker": {"org.apache.kafka:kafka_2.13:4.2.0": ()},
    # The connector of 4.3.0 and the token provider of 4.2.0 are not on Maven Central. Without security the latter does nothing.
    "connector": {"org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0": (TOKENS,), f"{TOKENS}:4.0.0": ()},
}
FOLDERS = {"broker": FOLDER, "connector": FOLDER / "connector"}
LIMIT_S = 600


def fetch(what: str) -> None:
    """Resolve packages and their dependencies into the folder jars. Raises an exception of Py4J if that is not possible."""
    from pyspark.java_gateway import launch_gateway

    jvm = launch_gateway().jvm
    option = getattr(jvm.scala, "Option").apply  # noqa: B009
    nothing, errors = option(None), jvm.java.lang.System.err
    maven = jvm.org.apache.spark.util.MavenUtils
    for package, without in PACKAGES[what].items():
        settings = maven.buildIvySettings(nothing, option(str(FOLDERS[what])), False, errors)
        exclusions = jvm.java.util.ArrayList()
        for excluded in without:
            exclusions.add(excluded)
        scala_exclusions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(exclusions).toSeq()
        transitive = not package.startswith(TOKENS)
        maven.resolveMavenCoordinates(package, settings, nothing, transitive, scala_exclusions, False, errors)
    (FOLDERS[what] / "complete").touch()


def main() -> None:
    what = next((name for name in PACKAGES if name in sys.argv), "broker")
    if (FOLDERS[what] / "complete").exists():
        return
    if "--resolve" in sys.argv:
        fetch(what)
        return
    print(f"fetching Apache Kafka's {what} (about 40 MB) ...", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER.with_suffix(".log")
    with log.open("wb") as output:
        command = [sys.executable, __file__, what, "--resolve"]
        try:
            code = subprocess.run(command, stdout=output, stderr=output, timeout=LIMIT_S, env=os.environ, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code != 0:
        print(
            f"Apache Kafka's {what} could not be fetched from Maven Central (see {log}): the tests that need a broker are skipped",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
