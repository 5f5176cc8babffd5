"""Verdicts and recoveries computed from small histories."""

from holdfast.documents.history import History, HistoryEvent, read_history
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import Recovery, check_run, output_gap_s, recoveries

TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)


def output(at_s, epoch, kind="first", quality="exact", sink="s"):
    return HistoryEvent(at_s, "n", "output", {"sink": sink, "epoch": epoch, "as": kind, "quality": quality, "rows": 1})


def holds(events):
    return {verdict.name: verdict.holds for verdict in check_run(events, TIMELINE, sinks=["s"])}


GOOD = [output(1, 1), output(2, 2, quality="tentative"), output(3, 3), output(4, 2, "final")]


def test_complete_and_corrected_run_passes_all_checks():
    assert all(holds(GOOD).values())


def test_missing_epoch_is_named():
    verdicts = check_run(GOOD[:2] + GOOD[3:], TIMELINE, sinks=["s"])
    assert next(v.reason for v in verdicts if v.name == "nothing lost") == "1 epoch never left a sink, first epoch 3 at 's'"


def test_epoch_that_leaves_twice_is_a_duplicate():
    assert holds([*GOOD, output(5, 3)])["nothing duplicated"] is False


def test_uncorrected_tentative_result_fails_the_check():
    assert holds(GOOD[:3])["every tentative result corrected"] is False


def test_divergence_names_both_producers():
    about = {"stream": "a", "epoch": 2, "seq": 7, "held_by": "a/0.0 on x", "made_by": "a/0.1 on y", "theirs": "1", "ours": "2"}
    verdict = next(
        v for v in check_run([*GOOD, HistoryEvent(9, "y", "divergence", about)], TIMELINE, sinks=["s"]) if v.holds is False
    )
    assert "a/0.0 on x has 1, a/0.1 on y has 2" in verdict.reason


def test_loss_in_an_endless_job_is_unknown():
    endless = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
    assert check_run(GOOD, endless, sinks=["s"])[0].holds is None


def injection_verdict(events, scheduled):
    verdicts = check_run([*GOOD, *events], TIMELINE, sinks=["s"], scheduled=scheduled)
    return next((v.holds, v.reason) for v in verdicts if v.name == "every fault injected")


def test_fault_due_after_the_end_fails_the_check():
    fault = HistoryEvent(1.5, "run", "fault", {"what": "crash node n2", "tasks": ["a/0"], "orders": []})
    assert injection_verdict([fault], 1)[0] is True
    assert injection_verdict([fault], 3) == (False, "2 of 3 faults were due after the run's end; schedule them earlier")
    assert "every fault injected" not in holds(GOOD)


def test_injection_is_unknown_if_no_replica_executed_the_order():
    fault = HistoryEvent(1.5, "run", "fault", {"what": "crash pe a/0 b/0", "tasks": ["a/0", "b/0"], "orders": ["x", "y"]})
    executed = [HistoryEvent(1.6, "n1", "injected", {"order": order, "replica": "1:a/0.0"}) for order in "xy"]
    assert injection_verdict([fault, *executed], 1)[0] is True
    assert injection_verdict([fault, *executed[:1]], 1) == (None, "1 of 1 faults had no live target, first: crash pe a/0 b/0")


def test_injection_is_unknown_if_the_target_was_already_dead():
    faults = [
        HistoryEvent(at, "run", "fault", {"what": "crash node n2", "tasks": [], "dead": dead})
        for at, dead in ((1, []), (2, ["n2"]))
    ]
    assert injection_verdict(faults, 2) == (None, "1 of 2 faults had no live target, first: crash node n2")


def test_gap_is_the_longest_silence_between_first_outputs():
    assert output_gap_s([output(1, 1), output(2, 2), output(6, 3), output(7, 2, "final")], sink="s") == 4
    assert output_gap_s([output(1, 1)], sink="s") is None


def test_recovery_lasts_from_detection_until_progress_is_restored():
    events = [
        HistoryEvent(10.0, "run", "fault", {"tasks": ["a/0", "b/0"]}),
        HistoryEvent(12.5, "orchestrator", "detected", {"tasks": ["a/0", "b/0"]}),
        HistoryEvent(13.0, "n2", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(14.5, "n2", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    (recovery,) = recoveries(events)
    assert (recovery.task, recovery.failed_s, recovery.detected_s, recovery.latency_s) == ("a/0", 10.0, 12.5, 2.0)


def test_task_with_another_working_replica_has_no_recovery():
    calm = [
        HistoryEvent(1.0, "n1", "start", {"replica": "1:a/0.0", "node": "n1"}),
        HistoryEvent(1.0, "n2", "start", {"replica": "1:a/0.1", "node": "n2"}),
        HistoryEvent(2.0, "n1", "restored", {"task": "a/0", "from": 0, "to": 0}),
        HistoryEvent(2.0, "n2", "restored", {"task": "a/0", "from": 0, "to": 0}),
    ]
    one_died = [
        HistoryEvent(10.0, "run", "fault", {"tasks": ["a/0"]}),
        HistoryEvent(12.5, "run", "detected", {"tasks": ["a/0"], "replica": "1:a/0.0", "node": "n1"}),
        HistoryEvent(13.0, "n3", "start", {"replica": "1:a/0.0", "node": "n3"}),
        HistoryEvent(13.5, "n3", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(14.5, "n3", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    both_died = [
        HistoryEvent(50.0, "run", "fault", {"tasks": ["a/0"]}),
        HistoryEvent(52.5, "run", "detected", {"tasks": ["a/0"], "replica": "1:a/0.0", "node": "n3"}),
        HistoryEvent(52.6, "run", "detected", {"tasks": ["a/0"], "replica": "1:a/0.1", "node": "n2"}),
        HistoryEvent(53.5, "n1", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(54.5, "n1", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    assert recoveries([*calm, *one_died]) == []
    assert recoveries([*calm, *one_died, *both_died]) == [Recovery("a/0", 50.0, 52.6, 53.5, 54.5)]
    idled = HistoryEvent(9.0, "run", "orchestrator", {"what": "replica", "text": "idled", "replica": "1:a/0.1"})
    assert recoveries([*calm, idled, *one_died]) == [Recovery("a/0", 10.0, 12.5, 13.5, 14.5)]


def test_recovery_begins_at_the_crash_not_at_an_earlier_stall():
    events = [
        HistoryEvent(10.0, "run", "fault", {"tasks": ["a/0"], "for_s": 2.0}),
        HistoryEvent(50.0, "run", "fault", {"tasks": ["a/0"], "for_s": None}),
        HistoryEvent(51.0, "run", "fault", {"tasks": ["a/0"], "for_s": None}),
        HistoryEvent(52.5, "run", "detected", {"tasks": ["a/0"]}),
        HistoryEvent(53.0, "n2", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(54.5, "n2", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    assert [recovery.failed_s for recovery in recoveries(events)] == [50.0]


def write_event(folder, by, kind, about):
    history = History(folder / by / "history-1.jsonl", by)
    history.append(kind, about)
    history.close()


def test_line_cut_short_by_a_kill_is_ignored(tmp_path):
    write_event(tmp_path, "n1", "commit", {"epoch": 1})
    with (tmp_path / "n1" / "history-1.jsonl").open("a") as file:
        file.write('{"at_s": 1, "by": "n')
    write_event(tmp_path, "n2", "fault", {"tasks": ["a/0"]})
    assert [(event.by, event.kind) for event in read_history(tmp_path)] == [("n1", "commit"), ("n2", "fault")]
