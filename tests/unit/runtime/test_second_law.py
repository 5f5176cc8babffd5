"""The second law on real PE replicas and the real log, without Spark: thousands of random steps in a second."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.log import Quality

from .pe_cluster import EPOCHS, GOLDEN, GRAPH, SCHEMA, Cluster, source_rows


@settings(max_examples=25)
@given(st.integers(0, 10**9), st.booleans())
def test_final_records_equal_the_golden_run_after_random_faults(seed, executors):
    rng = random.Random(seed)
    cluster = Cluster(counts={name: rng.choice([1, 1, 2, 3]) for name in GRAPH}, executors=executors)
    play(rng, cluster)
    require_second_law(cluster, GOLDEN)


def play(rng, cluster):
    """Take random steps and inject random faults. Then restart what is dead, and let everything come to rest."""
    alive = [True] * len(cluster.replicas)
    for _ in range(rng.randint(20, 250)):
        act, n = rng.random(), rng.randrange(len(alive))
        replica = cluster.replicas[n]
        if act < 0.10 and cluster.produced < EPOCHS:
            cluster.produce()
        elif act < 0.70 and alive[n]:
            replica.step()
        elif act < 0.76:
            alive[n] = False
            replica.close()
        elif act < 0.84 and not alive[n]:
            alive[n] = True
            cluster.replicas[n] = cluster.replica(replica.task.pe)
        elif act < 0.90:
            name = replica.task.pe
            epoch = cluster.log.last_epoch(name, 0, after=cluster.checkpoints.latest_epoch(f"{name}/0") or -1) + 1
            inputs = [cluster.log.first(stream, 0, epoch=epoch) for stream in GRAPH[name]]
            if epoch < EPOCHS and all(inputs):
                quality = rng.choice([Quality.ABSENT, Quality.PREDICTED])
                rows = SCHEMA.empty_table() if quality is Quality.ABSENT else source_rows(epoch)
                cluster.output(name).publish(name, epoch, rows=rows, quality=quality)
        elif act < 0.96 and alive[n]:
            replica.save()
        else:
            for stream in GRAPH:
                cluster.trimmer.trim(stream, 0)
    cluster.produce(EPOCHS - cluster.produced)
    cluster.replicas = [r if alive[n] else cluster.replica(r.task.pe) for n, r in enumerate(cluster.replicas)]
    for replica in cluster.replicas:
        replica._next_checkpoint_poll_s = 0.0
    cluster.settle()


def require_second_law(cluster, golden_checksums):
    for name in GRAPH:
        checksums = cluster.final_checksums(name)
        assert all(checksum in (None, golden) for checksum, golden in zip(checksums, golden_checksums[name], strict=True))
        saved = cluster.checkpoints.latest_epoch(f"{name}/0")
        assert all(checksums[(saved if saved is not None else -1) + 1 :])  # only epochs before a checkpoint may be trimmed
    assert all(replica.finished and replica.quality is Quality.EXACT for replica in cluster.replicas)
    assert not cluster.emitted("divergence")
