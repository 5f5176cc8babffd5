"""PE replicas whose kept rows are in files of the log, because executors have written them."""

from holdfast.documents.job import Contract
from holdfast.log.position import stored_files

from .pe_cluster import EPOCHS, GOLDEN, Cluster


def kept_files(cluster, name="a"):
    return set(cluster.store.names(f"kept/{name}%2F0/"))


def test_only_files_that_a_position_or_checkpoint_names_stay():
    cluster = Cluster(contract=Contract(checkpoint_epochs=4, catch_up_rows=1), executors=True)
    for _ in range(EPOCHS - 1):
        cluster.produce()
        cluster.settle()
    needed = stored_files(cluster.replicas[0].clean_position) | stored_files(cluster.checkpoints.latest("a/0"))
    assert needed <= kept_files(cluster)
    assert len(kept_files(cluster)) == 3  # the position and two checkpoints


def test_replica_continues_from_a_checkpoint_that_names_files():
    cluster = Cluster(contract=Contract(checkpoint_epochs=4, catch_up_rows=1), executors=True)
    cluster.produce(6)
    cluster.settle()
    cluster.replicas[0] = cluster.replica("a")
    assert cluster.replicas[0].clean_position.epoch == 3
    cluster.produce(EPOCHS - 6)
    cluster.settle()
    assert cluster.final_checksums("a") == GOLDEN["a"]
    assert not cluster.emitted("divergence")


def test_files_of_a_dead_replica_are_removed_once_checkpoints_have_passed_them():
    cluster = Cluster(contract=Contract(checkpoint_epochs=2, catch_up_rows=1), executors=True)
    cluster.produce(3)
    cluster.settle()
    orphans = stored_files(cluster.replicas[0].clean_position)
    assert orphans
    cluster.replicas[0] = cluster.replica("a")
    cluster.produce(EPOCHS - 3)
    cluster.settle()
    assert not orphans & kept_files(cluster)


def test_replica_whose_files_were_removed_starts_from_the_newest_checkpoint():
    cluster = Cluster(contract=Contract(checkpoint_epochs=4, catch_up_rows=1), executors=True)
    cluster.produce(6)
    cluster.settle()
    cluster.store.remove(sorted(stored_files(cluster.replicas[0].clean_position)))
    cluster.produce(EPOCHS - 6)
    cluster.settle()
    assert cluster.final_checksums("a") == GOLDEN["a"]
