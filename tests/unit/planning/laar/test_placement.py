"""Placement: apart, balanced, and by rack."""

import numpy as np

from holdfast.documents.descriptor import Descriptor, Host
from holdfast.planning.laar import expected_work, generate, place


def flat(pes, hosts, *, replicas=2):
    return Descriptor.model_validate(
        {
            "application": "flat",
            "sources": {"s": {"rates": [{"name": "r", "rate": 1.0, "probability": 1.0}]}},
            "pes": {f"p{i}": {"inputs": {"s": {"selectivity": 1.0, "cost": w}}} for i, w in enumerate(pes)},
            "sinks": {"o": {"inputs": ["p0"]}},
            "hosts": {name: host.model_dump() for name, host in hosts.items()},
            "replicas": replicas,
        }
    )


def loads(descriptor):
    (configuration,) = descriptor.input_configurations
    work = expected_work(descriptor, configuration)
    load = dict.fromkeys(descriptor.hosts, 0.0)
    for pe, hosts in place(descriptor).items():
        for host in hosts:
            load[host] += work[pe]
    return load


def test_load_is_balanced():
    load = loads(flat([5, 4, 3, 3, 2, 1, 1, 1], {f"h{i}": Host() for i in range(4)}))
    assert max(load.values()) - min(load.values()) <= 1


def test_a_larger_host_carries_more():
    load = loads(flat([1] * 30, {"big": Host(cores=2), "s1": Host(), "s2": Host()}))
    assert 1.6 < load["big"] / load["s1"] < 2.4


def test_replicas_go_to_different_racks_before_emptier_hosts():
    hosts = {"a1": Host(rack="a"), "a2": Host(rack="a"), "b1": Host(rack="b")}
    for placed in place(flat([3, 2, 2, 1, 1], hosts)).values():
        assert {hosts[h].rack for h in placed} == {"a", "b"}


def test_replicas_share_hosts_only_when_there_are_too_few():
    assert place(flat([1], {"only": Host()}))["p0"] == ("only", "only")
    three = place(flat([1, 1], {"x": Host(), "y": Host()}, replicas=3))
    assert all(set(hosts) == {"x", "y"} for hosts in three.values())


def test_equal_hosts_are_taken_by_name():
    assert place(flat([1], {"z": Host(), "a": Host(), "m": Host()}))["p0"] == ("a", "m")


def test_placing_again_gives_the_same():
    descriptor = generate(np.random.default_rng(4))
    assert place(descriptor) == place(descriptor) == descriptor.placement
