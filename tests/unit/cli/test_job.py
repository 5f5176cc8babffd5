"""holdfast job: what it prints about a replica."""

from holdfast.cli.job import print_job

REPLICA = {"replica": 0, "node": "n1", "state": "running", "active": True, "incarnation": 1, "rank": 0, "error": None}


def printed(capsys, status, **replica):
    task = {"task": "clicks/0", "reads": [], "shared": None, "replicas": [{**REPLICA, **replica, "status": status}]}
    document = {"id": 7, "name": "shop", "type": "streaming", "host_kind": "spark", "state": "running", "reason": None}
    print_job({**document, "history": [], "tasks": [task]})
    return capsys.readouterr().out


def test_rows_behind_and_what_a_replica_waits_for_are_shown(capsys):
    status = {"live": 4, "rows_behind": {"clicks:0": 1200, "clicks:1": 34}, "error": "waits for a system outside: no broker"}
    text = "running, epoch 4, 1,234 rows behind, incarnation 1, rank 0: waits for a system outside: no broker"
    assert text in printed(capsys, status)
    assert "rows behind" not in printed(capsys, {"live": 4, "rows_behind": {"clicks:0": 0}})
    assert "rank 0: killed" in printed(capsys, status, error="killed")
