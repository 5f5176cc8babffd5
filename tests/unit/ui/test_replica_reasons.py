"""The page explains why each task has its replicas."""

import json

from holdfast.documents.job import Job, Task
from holdfast.ui.replica_reasons import describe_plan

TASKS = (Task(pe="a", operators=("x", "y"), replicas=2), Task(pe="b"), Task(pe="out", kind="sink", replicas=2))


def test_plan_gives_reasons_per_task_of_fused_operators(tmp_path):
    plan = tmp_path / "plan.json"
    replica = {"task": "y/0", "quality_without": 0.25, "why": "losing it costs half"}
    plan.write_text(json.dumps({"topology": "t", "budget": 1, "planner": "greedy", "quality": 0.75, "replicated": [replica]}))
    description = describe_plan(Job(job="j", application="a.py", log="log", plan=str(plan)), TASKS)
    assert description["summary"] == "'greedy' uses 1 of a budget of 1 replicas; if all other tasks fail, OF is 0.750."
    assert description["tasks"]["a/0"] == {"planned": True, "why": ["losing it costs half"], "quality_without": 0.25}
    assert description["tasks"]["b/0"]["why"] == ["one replica: the plan adds none"]
    assert "a sink is cheap" in description["tasks"]["out/0"]["why"][0]
    assert description["replicas"] == 1


def test_missing_plan_is_reported(tmp_path):
    description = describe_plan(Job(job="j", application="a.py", log="log", plan=str(tmp_path / "missing.json")), TASKS)
    assert description["kind"] == "plan that cannot be read"
    assert "missing.json" in description["summary"]


def test_manual_replicas_differ_from_no_replicas():
    manual = describe_plan(Job(job="j", application="a.py", log="log", replicas={"a": 2}), TASKS)
    assert manual["tasks"]["a/0"]["why"] == ["the job requests 2 replicas"]
    bare = describe_plan(Job(job="j", application="a.py", log="log"), (Task(pe="b"),))
    assert (bare["kind"], bare["tasks"]["b/0"]["why"]) == ("no replicas", ["one replica: nothing requests more"])
