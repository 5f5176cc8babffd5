"""Why each replica is there."""

import json

from holdfast.documents.job import Job, Task
from holdfast.ui.replica_reasons import plan_of

TASKS = (Task(pe="a", operators=("x", "y"), replicas=2), Task(pe="b"), Task(pe="out", kind="sink", replicas=2))


def test_a_plan_gives_its_reasons_by_task_even_where_operators_are_fused(tmp_path):
    plan = tmp_path / "plan.json"
    replica = {"task": "y/0", "quality_without": 0.25, "why": "losing it costs half"}
    plan.write_text(json.dumps({"topology": "t", "budget": 1, "planner": "greedy", "quality": 0.75, "replicated": [replica]}))
    found = plan_of(Job(job="j", application="a.py", log="log", plan=str(plan)), TASKS)
    assert found["said"] == "1 of a budget of 1 replicas, chosen by 'greedy'; worth 0.750 by OF when all else fails."
    assert found["tasks"]["a/0"] == {"planned": True, "why": ["losing it costs half"], "quality_without": 0.25}
    assert found["tasks"]["b/0"]["why"] == ["one copy: the plan has no replica of it"]
    assert "a sink is cheap" in found["tasks"]["out/0"]["why"][0]
    assert found["replicas"] == 1


def test_a_plan_that_is_gone_is_said_to_be(tmp_path):
    found = plan_of(Job(job="j", application="a.py", log="log", plan=str(tmp_path / "gone.json")), TASKS)
    assert found["kind"] == "plan that cannot be read"
    assert "gone.json" in found["said"]


def test_replicas_by_hand_and_none_are_told_apart():
    asked = plan_of(Job(job="j", application="a.py", log="log", replicas={"a": 2}), TASKS)
    assert asked["tasks"]["a/0"]["why"] == ["the job asks for 2 replicas of it"]
    bare = plan_of(Job(job="j", application="a.py", log="log"), (Task(pe="b"),))
    assert (bare["kind"], bare["tasks"]["b/0"]["why"]) == ("no replicas", ["one copy: nothing asks for more"])
