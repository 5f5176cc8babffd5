"""PE replicas that fall behind while the log is trimmed past them."""

from holdfast.log.position import Position

from .pe_cluster import GOLDEN, Cluster, HashChain


def test_replica_that_was_stopped_past_trimming_commits_nothing():
    cluster = Cluster(counts={"a": 2})
    ahead, stopped = cluster.replicas[:2]
    cluster.produce(6)

    class StoppedCompute(HashChain):
        def run(self, new, position, span):
            result = super().run(new, position, span)
            ahead.step()
            ahead.save()
            cluster.trim_until(5)
            return result

    stopped._compute._compute, stopped.output.producer = StoppedCompute("a"), "stopped"
    assert stopped.step()
    assert cluster.log.oldest_epoch("a", 0) is None
    assert list(cluster.store.names("data/a/")) == []
    assert "stopped" not in {about.get("producer") for about in cluster.emitted("commit")}
    cluster.produce()
    cluster.settle()
    assert cluster.log.final("a", 0, epoch=6).checksum == GOLDEN["a"][6]


def test_replica_skips_rows_that_are_trimmed_while_it_reads_them():
    cluster = Cluster(counts={"a": 2})
    ahead, stopped = cluster.replicas[:2]
    cluster.produce(5)
    final_records = stopped._inputs.final_records

    def slow_final_records(epoch):
        records = final_records(epoch)
        if epoch == 4:
            ahead.step()
            ahead.save()
            cluster.trim_until(4)
        return records

    stopped._inputs.final_records = slow_final_records
    assert stopped.step() and stopped.clean_position.epoch == -1
    assert stopped.step() and stopped.clean_position.epoch == 4


def test_replica_behind_a_trimmed_log_continues_from_the_newest_checkpoint():
    cluster = Cluster(counts={"a": 2})
    ahead, behind = cluster.replicas[:2]
    cluster.produce(5)
    ahead.step()
    ahead.save()
    cluster.checkpoints.save("src/0", Position(4))
    cluster.checkpoints.save("b/0", Position(4))
    cluster.trimmer.trim("src", 0)
    assert cluster.log.oldest_epoch("src", 0) is None
    assert behind.step() and behind.clean_position.epoch == 4
