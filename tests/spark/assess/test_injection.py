"""What each fault does to a stream."""

from pyspark.sql import functions as F

from holdfast.assess.injection import Injection, injected
from holdfast.documents.fault import Divergence, Duplication, Loss, Reordering
from holdfast.engine.whole_trace import build_whole_trace

from .applications import counting


def after(orders, fault, first, last):
    graph = injected(counting().graph(), [Injection(fault, first, last)])
    rows = build_whole_trace(graph, {"orders": orders.withColumn("epoch", F.col("seq"))})["checked"].toArrow()
    return rows["seq"].to_pylist(), rows["amount"].to_pylist()


def test_loss_drops_exactly_the_burst(orders):
    seqs, _ = after(orders, Loss(target=("checked",), offset=0, tuples=5), 10, 14)
    assert sorted(seqs) == [seq for seq in range(40) if not 10 <= seq <= 14]


def test_duplication_repeats_the_same_share_of_the_burst(orders):
    fault = Duplication(target=("checked",), offset=0, tuples=20, share=0.5, seed=3)
    one, other = (sorted(after(orders, fault, 10, 29)[0]) for _ in range(2))
    assert one == other
    twice = {seq for seq in one if one.count(seq) == 2}
    assert twice < set(range(10, 30)) and 2 <= len(twice) <= 18


def test_reordering_moves_only_tuples_of_the_burst(orders):
    seqs, amounts = after(orders, Reordering(target=("checked",), offset=0, tuples=10, seed=1), 10, 19)
    moved = dict(zip(seqs, amounts, strict=True))
    assert sorted(seqs) == list(range(40))
    assert sorted(moved[seq] for seq in range(10, 20)) == list(range(10, 20))
    assert [moved[seq] for seq in range(10, 20)] != list(range(10, 20))
    assert all(moved[seq] == seq for seq in range(40) if not 10 <= seq < 20)


def test_reordering_keeps_within_its_distance(orders):
    seqs, amounts = after(orders, Reordering(target=("checked",), offset=0, tuples=20, distance=3, seed=2), 10, 29)
    assert sorted(seqs) == sorted(amounts) == list(range(40))
    assert 0 < max(abs(seq - amount) for seq, amount in zip(seqs, amounts, strict=True)) <= 3


def test_reordering_adds_no_seq_to_a_filtered_stream(orders):
    sparse = orders.where("seq % 3 = 0")
    seqs, amounts = after(sparse, Reordering(target=("checked",), offset=0, tuples=7, distance=2, seed=4), 10, 30)
    assert sorted(seqs) == sorted(amounts) == list(range(0, 40, 3))
    assert 0 < max(abs(seq - amount) for seq, amount in zip(seqs, amounts, strict=True)) <= 2 * 3


def test_divergence_changes_values_within_its_size(orders):
    seqs, amounts = after(orders, Divergence(target=("checked",), offset=0, tuples=10, size=0.1), 10, 19)
    off = {seq: amount / seq - 1 for seq, amount in zip(seqs, amounts, strict=True) if seq and amount != seq}
    assert off and set(off) <= set(range(10, 20)) and all(abs(size) <= 0.1 for size in off.values())
