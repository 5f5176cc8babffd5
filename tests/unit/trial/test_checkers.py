from holdfast.documents.history import History, HistoryEvent, read_history
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import Recovery, check_run, output_gap_s, recoveries

TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)


def output(at_s, epoch, kind="first", quality="exact", sink="s"):
    return HistoryEvent(at_s, "n", "output", {"sink": sink, "epoch": epoch, "as": kind, "quality": quality, "rows": 1})


def holds(events):
    return {verdict.name: verdict.holds for verdict in check_run(events, TIMELINE, sinks=["s"])}


GOOD = [output(1, 1), output(2, 2, quality="tentative"), output(3, 3), output(4, 2, "final")]


def test_a_run_whose_every_epoch_left_once_and_was_corrected_is_good():
    assert all(holds(GOOD).values())


def test_an_epoch_that_never_left_is_lost_and_named():
    verdicts = check_run(GOOD[:2] + GOOD[3:], TIMELINE, sinks=["s"])
    assert next(v.reason for v in verdicts if v.name == "nothing lost") == "1 epochs never left; sink 's' lacks epoch 3 first"


def test_an_epoch_that_left_twice_is_a_duplicate():
    assert holds([*GOOD, output(5, 3)])["nothing duplicated"] is False


def test_a_tentative_result_without_a_correction_is_told():
    assert holds(GOOD[:3])["every tentative result corrected"] is False


def test_a_divergence_names_both_producers():
    about = {"stream": "a", "epoch": 2, "seq": 7, "held_by": "a/0.0 on x", "made_by": "a/0.1 on y", "theirs": "1", "ours": "2"}
    verdict = next(
        v for v in check_run([*GOOD, HistoryEvent(9, "y", "divergence", about)], TIMELINE, sinks=["s"]) if v.holds is False
    )
    assert "a/0.0 on x has 1, a/0.1 on y has 2" in verdict.reason


def test_what_an_endless_job_has_lost_is_unknown():
    endless = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
    assert check_run(GOOD, endless, sinks=["s"])[0].holds is None


def struck(events, scheduled):
    verdicts = check_run([*GOOD, *events], TIMELINE, sinks=["s"], scheduled=scheduled)
    return next((v.holds, v.reason) for v in verdicts if v.name == "every fault injected")


def test_faults_that_were_due_after_the_end_are_told():
    fault = HistoryEvent(1.5, "run", "fault", {"what": "crash node n2", "tasks": ["a/0"], "orders": []})
    assert struck([fault], 1)[0] is True
    assert struck([fault], 3) == (False, "2 of 3 faults were due after the run's end; schedule them earlier")
    assert "every fault injected" not in holds(GOOD)


def test_a_fault_that_no_replica_obeyed_leaves_unknown_whether_it_struck():
    fault = HistoryEvent(1.5, "run", "fault", {"what": "crash pe a/0 b/0", "tasks": ["a/0", "b/0"], "orders": ["x", "y"]})
    obeyed = [HistoryEvent(1.6, "n1", "struck", {"order": order, "replica": "1:a/0.0"}) for order in "xy"]
    assert struck([fault, *obeyed], 1)[0] is True
    assert struck([fault, *obeyed[:1]], 1) == (None, "1 of 1 faults had no live target, first: crash pe a/0 b/0")


def test_a_fault_whose_target_was_dead_already_leaves_it_unknown_too():
    faults = [
        HistoryEvent(at, "run", "fault", {"what": "crash node n2", "tasks": [], "dead": dead})
        for at, dead in ((1, []), (2, ["n2"]))
    ]
    assert struck(faults, 2) == (None, "1 of 2 faults had no live target, first: crash node n2")


def test_the_gap_is_the_longest_silence_between_first_outputs():
    assert output_gap_s([output(1, 1), output(2, 2), output(6, 3), output(7, 2, "final")], sink="s") == 4
    assert output_gap_s([output(1, 1)], sink="s") is None


def test_a_recovery_lasts_from_its_detection_until_the_task_is_where_it_was():
    events = [
        HistoryEvent(10.0, "run", "fault", {"tasks": ["a/0", "b/0"]}),
        HistoryEvent(12.5, "orchestrator", "detected", {"tasks": ["a/0", "b/0"]}),
        HistoryEvent(13.0, "n2", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(14.5, "n2", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    (recovery,) = recoveries(events)
    assert (recovery.task, recovery.failed_s, recovery.detected_s, recovery.latency_s) == ("a/0", 10.0, 12.5, 2.0)


def test_a_task_whose_other_replica_went_on_has_no_recovery():
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


def test_a_stall_that_was_no_failure_is_not_what_a_later_crash_began_with():
    events = [
        HistoryEvent(10.0, "run", "fault", {"tasks": ["a/0"], "for_s": 2.0}),
        HistoryEvent(50.0, "run", "fault", {"tasks": ["a/0"], "for_s": None}),
        HistoryEvent(51.0, "run", "fault", {"tasks": ["a/0"], "for_s": None}),
        HistoryEvent(52.5, "run", "detected", {"tasks": ["a/0"]}),
        HistoryEvent(53.0, "n2", "restored", {"task": "a/0", "from": 3, "to": 8}),
        HistoryEvent(54.5, "n2", "recovered", {"task": "a/0", "epoch": 8}),
    ]
    assert [each.failed_s for each in recoveries(events)] == [50.0]


def told(folder, by, kind, about):
    history = History(folder / by / "history-1.jsonl", by)
    history.append(kind, about)
    history.close()


def test_a_history_survives_a_writer_that_was_killed_in_the_middle_of_a_line(tmp_path):
    told(tmp_path, "n1", "commit", {"epoch": 1})
    with (tmp_path / "n1" / "history-1.jsonl").open("a") as file:
        file.write('{"at_s": 1, "by": "n')
    told(tmp_path, "n2", "fault", {"tasks": ["a/0"]})
    assert [(event.by, event.kind) for event in read_history(tmp_path)] == [("n1", "commit"), ("n2", "fault")]
