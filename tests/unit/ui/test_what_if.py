"""What would follow if replicas were lost."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.job import Contract, Policy
from holdfast.ui.what_if import ReplicaAt, TaskAt, consequences


def task(name, *replicas, readers=(), kind="operators"):
    made = tuple(ReplicaAt(f"1:{name}.{k}", k, *replica.split(":")) for k, replica in enumerate(replicas))
    return TaskAt(name, kind, made, readers)


CHAIN = (
    task("in/0", "n1:running", readers=("a/0",), kind="source"),
    task("a/0", "n1:running", "n2:running", readers=("b/0",)),
    task("b/0", "n2:running", readers=("out/0",)),
    task("out/0", "n1:running", "n2:running", kind="sink"),
    task("aside/0", "n3:running", kind="sink"),
)


def lost(node=None, *, tasks=CHAIN, key=None, policy=None, **contract):
    return consequences(
        tasks,
        lambda replica: replica.node == node or replica.key == key,
        contract=lambda pe: Contract(**contract),
        policy=policy or Policy(),
    )


def test_a_task_with_another_replica_goes_on_and_one_without_stops_and_reaches_the_output():
    found = lost("n2", tentative_after_s=1.0)
    assert (found.goes_on, found.down) == (("a/0", "out/0"), ("b/0",))
    assert (found.downstream, found.outputs, found.untouched) == (("out/0",), ("out/0",), ("aside/0",))
    assert found.said == (
        "a/0: replica 0 on n1 goes on within 0.5 s; nothing is lost and nothing waits.",
        "b/0: no other replica lives, so it stops. It is started again on another node and replays at most 10 epochs, as one job.",
        "out/0: replica 0 on n1 goes on within 0.5 s; nothing is lost and nothing waits.",
        "After 1 s out/0 goes on without it; what it makes is tentative and is corrected afterwards.",
        "Output reached: out/0.",
        "Output not reached: aside/0.",
    )


def test_without_a_deadline_consumers_wait():
    assert "a/0, b/0, out/0 wait for it; what they made stays exact." in lost("n1").said


def test_a_prediction_stands_in_where_the_contract_says_so():
    found = lost("n2", protection="prediction", deadline_s=2.0)
    assert found.becomes == "predicted"
    assert (
        "After 2 s an agent predicts it, for at most 30 epochs; what out/0 makes of that is predicted and is corrected"
        in found.said[3]
    )


def test_each_contract_is_told_for_those_that_read_of_it():
    contracts = {"in": Contract(), "b": Contract(tentative_after_s=1.0)}
    found = consequences(CHAIN, lambda r: r.key in ("1:in/0.0", "1:b/0.0"), contract=contracts.__getitem__, policy=Policy())
    assert found.becomes == "tentative"
    assert found.said[2:4] == (
        "a/0, b/0, out/0 wait for it; what they made stays exact.",
        "After 1 s out/0 goes on without it; what it makes is tentative and is corrected afterwards.",
    )


def test_a_loss_that_policy_and_contract_do_not_mend_is_said_to_stay():
    said = lost("n2", policy=Policy(restart="never"), tentative_after_s=2.0, correction=False, secondary="eager").said
    assert said[1] == "b/0: no other replica lives, so it stops. It is not started again."
    assert "what it makes is tentative and is not made again" in said[3]
    assert "goes on at once" in said[0]


def test_an_idle_replica_is_activated_and_a_starting_one_is_late():
    tasks = (task("a/0", "n1:running", "n2:idle"), task("b/0", "n1:running", "n2:starting"))
    found = lost("n1", tasks=tasks)
    assert found.late == ("a/0", "b/0")
    assert "replica 1 on n2 is activated and catches up" in found.said[0]
    assert "replica 1 on n2 is still starting and catches up" in found.said[1]


def test_what_is_dead_already_is_no_loss():
    assert lost("n1", tasks=(task("a/0", "n1:failed", "n2:running"),)).said == ("Nothing that runs would be lost.",)


@given(st.sets(st.sampled_from(["n1", "n2", "n3"])))
def test_every_struck_task_goes_on_is_late_or_stops_and_nothing_stops_that_lives_elsewhere(nodes):
    found = consequences(CHAIN, lambda replica: replica.node in nodes, contract=lambda pe: Contract(), policy=Policy())
    assert sorted(found.struck) == sorted((*found.goes_on, *found.late, *found.down))
    assert set(found.down) == {each.name for each in CHAIN if {replica.node for replica in each.replicas} <= nodes}
