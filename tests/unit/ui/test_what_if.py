"""What would happen if replicas were lost."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.job import Contract, Policy
from holdfast.ui.what_if import ReplicaView, TaskView, find_consequences


def task(name, *replicas, readers=(), kind="operators"):
    views = tuple(ReplicaView(f"1:{name}.{k}", k, *replica.split(":")) for k, replica in enumerate(replicas))
    return TaskView(name, kind, views, readers)


CHAIN = (
    task("in/0", "n1:running", readers=("a/0",), kind="source"),
    task("a/0", "n1:running", "n2:running", readers=("b/0",)),
    task("b/0", "n2:running", readers=("out/0",)),
    task("out/0", "n1:running", "n2:running", kind="sink"),
    task("aside/0", "n3:running", kind="sink"),
)


def lose(node=None, *, tasks=CHAIN, key=None, policy=None, **contract):
    return find_consequences(
        tasks,
        lambda replica: replica.node == node or replica.key == key,
        contract=lambda pe: Contract(**contract),
        policy=policy or Policy(),
    )


def test_task_with_another_replica_continues_and_one_without_stops():
    result = lose("n2", tentative_after_s=1.0)
    assert (result.continues, result.down) == (("a/0", "out/0"), ("b/0",))
    assert (result.downstream, result.outputs, result.untouched) == (("out/0",), ("out/0",), ("aside/0",))
    assert result.sentences == (
        "a/0: replica 0 on n1 continues within 0.5 s. No output is lost and no reader waits.",
        "b/0: no other replica is alive, so it stops. "
        "The orchestrator restarts it on another node, and it replays at most 10 epochs.",
        "out/0: replica 0 on n1 continues within 0.5 s. No output is lost and no reader waits.",
        "After 1 s out/0 continues without it; its output is tentative and is corrected afterwards.",
        "Affected outputs: out/0.",
        "Unaffected outputs: aside/0.",
    )


def test_readers_wait_without_a_time_limit():
    assert "a/0, b/0, out/0 wait for it; their earlier output stays exact." in lose("n1").sentences


def test_output_is_predicted_if_the_contract_says_so():
    result = lose("n2", protection="prediction", deadline_s=2.0)
    assert result.becomes == "predicted"
    assert (
        "After 2 s an agent predicts its output, for at most 30 epochs. The output of out/0 is then predicted and is corrected"
        in result.sentences[3]
    )


def test_each_contract_has_its_own_sentence():
    contracts = {"in": Contract(), "b": Contract(tentative_after_s=1.0)}
    result = find_consequences(CHAIN, lambda r: r.key in ("1:in/0.0", "1:b/0.0"), contract=contracts.__getitem__, policy=Policy())
    assert result.becomes == "tentative"
    assert result.sentences[2:4] == (
        "a/0, b/0, out/0 wait for it; their earlier output stays exact.",
        "After 1 s out/0 continues without it; its output is tentative and is corrected afterwards.",
    )


def test_sentences_mention_missing_restart_and_correction():
    sentences = lose("n2", policy=Policy(restart="never"), tentative_after_s=2.0, correction=False, secondary="eager").sentences
    assert sentences[1] == "b/0: no other replica is alive, so it stops. The job's policy does not restart it."
    assert "its output is tentative and is not corrected" in sentences[3]
    assert "continues at once" in sentences[0]


def test_an_idle_replica_is_activated_and_a_starting_one_is_late():
    tasks = (task("a/0", "n1:running", "n2:idle"), task("b/0", "n1:running", "n2:starting"))
    result = lose("n1", tasks=tasks)
    assert result.late == ("a/0", "b/0")
    assert "replica 1 on n2 is activated and catches up" in result.sentences[0]
    assert "replica 1 on n2 finishes starting and catches up" in result.sentences[1]


def test_losing_a_dead_replica_changes_nothing():
    assert lose("n1", tasks=(task("a/0", "n1:failed", "n2:running"),)).sentences == ("No running replica would be lost.",)


@given(st.sets(st.sampled_from(["n1", "n2", "n3"])))
def test_every_affected_task_continues_is_late_or_stops(nodes):
    result = find_consequences(CHAIN, lambda replica: replica.node in nodes, contract=lambda pe: Contract(), policy=Policy())
    assert sorted(result.affected) == sorted((*result.continues, *result.late, *result.down))
    assert set(result.down) == {each.name for each in CHAIN if {replica.node for replica in each.replicas} <= nodes}
