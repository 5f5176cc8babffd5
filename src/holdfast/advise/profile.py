"""Rates and CPU costs of an application, measured once per advice and then read from its folder."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App
from holdfast.app.task_topology import topology_of
from holdfast.assess.targets import target_name
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import check_document, document_text, write_document
from holdfast.documents.topology import Topology
from holdfast.documents.whole_files import read_json, write_whole
from holdfast.planning.laar import expected_work
from holdfast.profile import Measurement, describe, measure
from holdfast.terminal import progress_bar


@dataclass(frozen=True)
class Profile:
    """The measured application: its descriptor, its topology, and the CPU seconds per second of every source and PE."""

    descriptor: "Descriptor"
    topology: "Topology"
    cpu: dict[str, float]


def load_or_measure_profile(
    spark: SparkSession, app: App, frames: dict[str, DataFrame], subject: dict[str, Any], out: Path
) -> Profile:
    """Return the profile of a subject from the folder; measure and write it if there is none.

    CPU times differ between measurements, and plans depend on them. An advice that is resumed must make the same plans again.
    """
    subject_hash = hashlib.sha256(json.dumps(subject, sort_keys=True).encode()).hexdigest()[:16]
    path = out / f"profile-{subject_hash}.json"
    if path.exists():
        profile = _read(path)
    else:
        profile = _measured(spark, app, frames)
        write_whole(path, json.dumps({"subject": subject, **_plain(profile)}, indent=2))
    write_document(out / "descriptor.yaml", profile.descriptor)
    write_document(out / "topology.yaml", profile.topology)
    return profile


def _measured(spark: SparkSession, app: App, frames: dict[str, DataFrame]) -> Profile:
    with progress_bar("measuring PEs") as bar:
        measurement = measure(spark, app, frames, progress=lambda what, done, total: bar(done, total))
    descriptor = describe(app, measurement, nodes=2)
    names = {node: f"n{number}" for number, node in enumerate(descriptor.nodes, 1)}  # as holdfast run names its nodes
    descriptor = descriptor.model_copy(update={"nodes": {names[node]: about for node, about in descriptor.nodes.items()}})
    topology = topology_of(app.graph(), name=app.name, rates=measurement.leaving, shares=measurement.shares)
    return Profile(descriptor, topology, cpu_of(measurement, descriptor))


def cpu_of(measurement: Measurement, descriptor: Descriptor) -> dict[str, float]:
    """Return the CPU seconds per second of a replica of every source and PE, at average rates."""
    cpu = {source: cost_s * measurement.leaving[source] for source, cost_s in measurement.reading_s.items()}
    for name, described in descriptor.pes.items():
        cpu[target_name(described.operators or (name,))] = sum(
            configuration.probability * expected_work(descriptor, configuration)[name]
            for configuration in descriptor.input_configurations
        )
    return cpu


def _plain(profile: Profile) -> dict[str, Any]:
    descriptor, topology = (json.loads(document_text(each, json_text=True)) for each in (profile.descriptor, profile.topology))
    return {"descriptor": descriptor, "topology": topology, "cpu": profile.cpu}


def _read(path: Path) -> Profile:
    document = read_json(path)
    descriptor = check_document(document.get("descriptor"), Descriptor, thing=str(path))
    return Profile(descriptor, check_document(document.get("topology"), Topology, thing=str(path)), document["cpu"])
