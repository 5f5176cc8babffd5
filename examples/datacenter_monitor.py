"""Datacenter monitor (ISORC'16, section V): server metrics aggregated through a chain and through parallel branches.

Readings are cleaned, then three branches (processor, memory, network) smooth their metric per server and average it per rack in
every epoch; the branches meet in one status per rack, and a last operator tells how hot each rack runs.

    holdfast trace servers --events 200000 --out servers.parquet
    holdfast replay examples/datacenter_monitor.py --trace servers.parquet
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

SMOOTHED = 6

app = App("datacenter-monitor", epoch_s=5.0)

servers = app.source(
    "servers",
    "seq long, time timestamp, server string, rack string, cpu double, memory double, disk double, network double, "
    "requests long, errors long",
    key="server",
)


@app.operator(inputs=servers)
def readings(servers: DataFrame) -> DataFrame:
    """Readings that can be true."""
    return servers.where("cpu between 0 and 100 and memory between 0 and 100 and network >= 0").select(
        "seq", "epoch", "server", "rack", "cpu", "memory", "network", "requests", "errors"
    )


def smoothed(readings: DataFrame, metric: str) -> DataFrame:
    recent = Window.partitionBy("server").orderBy("seq").rowsBetween(1 - SMOOTHED, 0)
    return readings.select("seq", "epoch", "rack", "server", F.avg(metric).over(recent).alias(metric))


def per_rack(smooth: DataFrame, metric: str) -> DataFrame:
    return smooth.groupBy("epoch", "rack").agg(
        F.max("seq").alias("seq"), F.avg(metric).alias(metric), F.max(metric).alias(f"peak_{metric}")
    )


@app.operator(inputs=readings, keep=last_rows(SMOOTHED - 1, by="server"), key="server")
def smooth_cpu(readings: DataFrame) -> DataFrame:
    return smoothed(readings, "cpu")


@app.operator(inputs=smooth_cpu, key="rack")
def rack_cpu(smooth: DataFrame) -> DataFrame:
    return per_rack(smooth, "cpu")


@app.operator(inputs=readings, keep=last_rows(SMOOTHED - 1, by="server"), key="server")
def smooth_memory(readings: DataFrame) -> DataFrame:
    return smoothed(readings, "memory")


@app.operator(inputs=smooth_memory, key="rack")
def rack_memory(smooth: DataFrame) -> DataFrame:
    return per_rack(smooth, "memory")


@app.operator(inputs=readings, keep=last_rows(SMOOTHED - 1, by="server"), key="server")
def smooth_network(readings: DataFrame) -> DataFrame:
    return smoothed(readings, "network")


@app.operator(inputs=smooth_network, key="rack")
def rack_network(smooth: DataFrame) -> DataFrame:
    return per_rack(smooth, "network")


@app.operator(inputs=[rack_cpu, rack_memory, rack_network], correlated=True, key="rack")
def rack_status(cpu: DataFrame, memory: DataFrame, network: DataFrame) -> DataFrame:
    """The three branches of a rack side by side, in every epoch in which all have something to say."""
    return (
        cpu.join(memory.drop("seq"), ["epoch", "rack"])
        .join(network.drop("seq"), ["epoch", "rack"])
        .select("seq", "epoch", "rack", "cpu", "peak_cpu", "memory", "peak_memory", "network")
    )


@app.operator(inputs=rack_status, keep=last_rows(11, by="rack"), key="rack")
def rack_heat(status: DataFrame) -> DataFrame:
    """How a rack's load compares with its own last minute."""
    minute = Window.partitionBy("rack").orderBy("seq").rowsBetween(-11, 0)
    load = 0.7 * F.col("cpu") + 0.3 * F.col("memory")
    return status.select("seq", "epoch", "rack", load.alias("load"), (load - F.avg(load).over(minute)).alias("rise"))


app.sink("racks", rack_heat)
app.score("racks", "avg(load)")
