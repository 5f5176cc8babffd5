"""Fetch Apache Kafka's broker from Maven Central, with the resolver that PySpark brings. The tests and `make demo-kafka` start it.

Example: python scripts/fetch_kafka.py        (into the kafka folder of the virtual environment)
"""

import os
import subprocess
import sys
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13:4.2.0"
FOLDER = Path(sys.prefix) / "kafka"
DONE = FOLDER / "complete"
LIMIT_S = 600


def fetch() -> None:
    """Resolve the broker and its dependencies into FOLDER/jars. Raises an exception of Py4J if that is not possible."""
    from pyspark.java_gateway import launch_gateway

    jvm = launch_gateway().jvm
    option = getattr(jvm.scala, "Option").apply  # noqa: B009
    nothing, errors = option(None), jvm.java.lang.System.err
    maven = jvm.org.apache.spark.util.MavenUtils
    settings = maven.buildIvySettings(nothing, option(str(FOLDER)), False, errors)
    no_exclusions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
    maven.resolveMavenCoordinates(KAFKA, settings, nothing, True, no_exclusions, False, errors)
    DONE.touch()


def main() -> None:
    if DONE.exists():
        return
    if "--resolve" in sys.argv:
        fetch()
        return
    print("fetching Apache Kafka (about 40 MB) ...", flush=True)
    log = FOLDER.with_suffix(".log")
    with log.open("wb") as output:
        command = [sys.executable, __file__, "--resolve"]
        try:
            code = subprocess.run(command, stdout=output, stderr=output, timeout=LIMIT_S, env=os.environ, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code != 0:
        print(
            f"Apache Kafka could not be fetched from Maven Central (see {log}): the tests that need a broker are skipped",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
