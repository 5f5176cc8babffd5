"""Real recoveries, measured from a history."""

from holdfast.run.history import Event
from holdfast.run.recovery_study import PES, TECHNIQUES, findings, schedule, silence_s


def output(at_s: float, kind: str = "first") -> Event:
    return Event(at_s, "n1", "output", {"sink": "out", "epoch": int(at_s), "as": kind, "quality": "exact", "rows": 1})


def test_the_silence_of_a_sink_is_what_it_waits_beyond_an_epoch():
    events = [*(output(at) for at in (1.0, 2.0, 3.0, 7.5, 8.0, 9.0, 12.0)), output(5.0, "final")]
    assert silence_s(events, 3.5, 8.5, epoch_s=1.0) == 3.5
    assert silence_s(events, 8.5, float("inf"), epoch_s=1.0) == 2.0
    assert silence_s(events, 0.0, 2.5, epoch_s=1.0) == 0.0


def test_the_schedule_strikes_primaries_alone():
    one, all_ = schedule().faults
    assert one.target == ("o2/0.0",)
    assert set(all_.target) == {f"{pe}/0.0" for pe in PES}


def test_findings_hold_in_the_papers_order_and_not_in_another():
    def row(technique: str, silence: float, latency: float | None) -> dict[str, object]:
        figures = {"one_silence_s": silence, "all_silence_s": silence, "one_latency_s": latency, "all_latency_s": latency}
        return {"technique": technique, **figures}

    names = [technique.name for technique in TECHNIQUES]
    seconds = ((0.5, None), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (5.0, 5.0))
    ordered = [row(name, silence, latency) for name, (silence, latency) in zip(names, seconds, strict=True)]
    assert all(finding.holds for finding in findings(ordered))
    flat = [row(name, 1.0, 1.0) for name in names]
    assert [finding.holds for finding in findings(flat)] == [False, False, False, False, True]
