"""Standing in for a PE: what is learned, what is predicted, and that nobody's mistake gets through."""

import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CompoundError, HoldfastError
from holdfast.prediction import EpochPredictor, PredictorSettings, columns_of, default_predictors, guarded_calls, make, view
from holdfast.prediction.predictors.last_outcome import LastOutcome

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("rack", pa.string()),
        pa.field("room", pa.string()),
        pa.field("cpu", pa.float64()),
        pa.field("requests", pa.int32()),
        pa.field("note", pa.string()),
    ]
)
AMPLE_S = 60.0


def rows(epoch, racks, *, cpu=None, requests=None):
    """One row per rack; by default cpu rises by 1 an epoch from the rack's own level."""
    count = len(racks)
    return pa.table(
        {
            "seq": 100 * epoch + np.arange(count),
            "epoch": np.full(count, epoch),
            "rack": racks,
            "room": [f"room of {rack}" for rack in racks],
            "cpu": [10.0 * (n + 1) + epoch for n in range(count)] if cpu is None else cpu,
            "requests": pa.array([3 * epoch] * count if requests is None else requests, pa.int32()),
            "note": [f"seen in {epoch}"] * count,
        },
        schema=SCHEMA,
    )


def stand_in(predictors=None, *, blank=("note",), **changes):
    return EpochPredictor(columns_of(SCHEMA, ["rack"], blank=blank), predictors, settings=PredictorSettings(**changes))


def watched(stand, epochs, racks=("a", "b"), **columns):
    for epoch in epochs:
        stand.observe(epoch, rows(epoch, list(racks), **columns))
        stand.learn()
    return stand


class Broken:
    """A predictor that does something wrong from its `after`-th call on."""

    least = 1

    def __init__(self, how, *, after=0, name="broken"):
        self.how, self.name, self.after, self.calls = how, name, after, 0

    def train(self, history):
        return np.empty((len(history), 0))

    def forecast(self, history, learned, *, steps):
        self.calls += 1
        good = np.repeat(history[:, -1:], steps, axis=1)
        return self.how(good) if self.calls > self.after else good


def raising(answer):
    raise ValueError("no idea")


def exiting(answer):
    raise SystemExit(3)


def interrupting(answer):
    raise KeyboardInterrupt


def test_a_predicted_epoch_has_the_streams_schema_and_the_keys_that_were_there():
    made = watched(stand_in(), range(30)).predict(30, AMPLE_S)
    assert made.rows.schema == SCHEMA
    assert made.rows["rack"].to_pylist() == ["a", "b"]
    assert made.rows["room"].to_pylist() == ["room of a", "room of b"]
    assert made.rows["note"].to_pylist() == [None, None]
    assert made.rows["epoch"].to_pylist() == [30, 30]
    assert made.rows["seq"].to_pylist() == [3000, 3001]
    assert made.rows["cpu"].to_pylist() == pytest.approx([40.0, 50.0], rel=0.01)
    assert made.rows["requests"].to_pylist() == pytest.approx([90, 90], abs=1)
    assert sum(made.used.values()) == 4
    assert (made.short, made.why) == (0, "")


def test_a_long_stall_is_followed_step_by_step():
    stand = watched(stand_in([make("stride"), make("last-outcome")]), range(30))
    path = [stand.predict(epoch, AMPLE_S).rows["cpu"].to_pylist()[0] for epoch in range(30, 36)]
    assert path == pytest.approx([40.0, 41.0, 42.0, 43.0, 44.0, 45.0])


def test_seqs_are_spread_over_the_range_of_the_input_where_it_is_known():
    made = watched(stand_in(), range(20), racks="abcd").predict(20, AMPLE_S, seqs=(5000, 5100))
    assert made.rows["seq"].to_pylist() == [5025, 5050, 5075, 5100]


def test_a_key_that_vanished_is_no_longer_predicted_and_a_new_one_is():
    stand = watched(stand_in(), range(20), racks="ab")
    watched(stand, range(20, 26), racks="bc")
    assert stand.predict(26, AMPLE_S).rows["rack"].to_pylist() == ["b", "c"]


@pytest.mark.parametrize("away", [6, 12, 14, 30])
def test_a_key_that_is_back_is_expected_as_before_it_left_and_with_what_it_had_learned(away):
    stand = watched(stand_in(forget_after=50), range(20), racks="ab")
    watched(stand, range(20, 20 + away), racks="a")
    for ahead in range(8):
        assert stand.predict(20 + away + ahead, AMPLE_S).rows["rack"].to_pylist() == ["a"]
    watched(stand, [20 + away], racks="ab")
    made = stand.predict(21 + away, AMPLE_S)
    assert made.rows["rack"].to_pylist() == ["a", "b"]
    assert made.short == 0


def test_a_key_that_comes_once_in_a_long_while_is_not_expected_in_the_next_epochs():
    stand = stand_in()
    for epoch in range(62):
        watched(stand, [epoch], racks="a" if epoch % 20 else "ab")
    assert stand.predict(62, AMPLE_S).rows["rack"].to_pylist() == ["a"]


def test_a_key_that_missed_one_epoch_is_still_expected():
    stand = watched(stand_in(), range(20), racks="ab")
    watched(stand, [20], racks="a")
    assert stand.predict(21, AMPLE_S).rows["rack"].to_pylist() == ["a", "b"]


def test_a_key_with_several_rows_an_epoch_is_predicted_with_as_many():
    stand = watched(stand_in([make("stride")]), range(20), racks="aab", cpu=[1.0, 2.0, 9.0])
    made = stand.predict(20, AMPLE_S).rows
    assert sorted(made["rack"].to_pylist()) == ["a", "a", "b"]


def test_a_key_of_every_second_epoch_is_predicted_every_second_epoch():
    stand = stand_in()
    for epoch in range(40):
        stand.observe(epoch, rows(epoch, ["a"] if epoch % 2 else ["a", "b"]))
    there = ["b" in stand.predict(epoch, AMPLE_S).rows["rack"].to_pylist() for epoch in range(40, 48)]
    assert sum(there) == 4


def test_nulls_do_not_disturb_and_a_column_that_is_mostly_null_stays_so():
    stand = stand_in([make("last-outcome")])
    for epoch in range(30):
        cpu = [float(epoch) if epoch % 4 else None, None if epoch > 10 else 5.0]
        watched(stand, [epoch], cpu=cpu)
    assert stand.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [29.0, None]


def test_a_number_that_may_not_be_null_and_never_was_one_stays_none():
    schema = pa.schema([pa.field("cpu", pa.float64(), nullable=False), pa.field("errors", pa.int64(), nullable=False)])
    stand = EpochPredictor(columns_of(schema, []))
    for epoch in range(10):
        stand.observe(epoch, pa.table({"cpu": [float("nan")], "errors": [2]}, schema=schema))
    made = stand.predict(10, AMPLE_S).rows
    made.validate(full=True)
    assert np.isnan(made["cpu"][0].as_py())
    assert made["errors"].to_pylist() == [2]


def test_infinity_is_no_value():
    stand = watched(stand_in(), range(20), cpu=[1.0, 2.0])
    watched(stand, [20], cpu=[float("inf"), float("nan")])
    assert stand.predict(21, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([1.0, 2.0])


def test_a_series_too_large_to_calculate_with_has_its_last_outcome_and_keeps_no_algorithm_from_the_others():
    stand = watched(stand_in(), range(30), cpu=[1.7e308, 2.0])
    assert not [standing.reason for standing in stand.standings if standing.reason]
    assert stand.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [1.7e308, 2.0]
    for epoch in range(30, 90):
        watched(stand, [epoch], cpu=[float(epoch), -1.7e308 if epoch == 40 else 2.0])
    assert not [standing.reason for standing in stand.standings if standing.reason]
    assert stand.predict(90, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([90.0, 2.0], rel=0.05)
    json.dumps(view(stand), allow_nan=False)


def test_whole_numbers_stay_whole_and_in_range():
    stand = watched(stand_in([make("stride")]), range(20), requests=[2**31 - 1, 0])
    watched(stand, [20], requests=[2**31 - 1, 7])
    made = stand.predict(21, AMPLE_S).rows["requests"]
    assert made.type == pa.int32()
    assert made.to_pylist() == [2**31 - 1, 14]


def test_what_never_was_negative_is_not_predicted_negative():
    stand = stand_in([make("stride")])
    for epoch in range(20):
        watched(stand, [epoch], cpu=[float(19 - epoch) ** 2, 1.0])
    assert stand.predict(25, AMPLE_S).rows["cpu"].to_pylist()[0] == 0.0


def test_a_stream_without_keys_is_one_series():
    schema = pa.schema([("epoch", pa.int64()), ("total", pa.decimal128(4, 2))])
    stand = EpochPredictor(columns_of(schema, []), [make("stride")])
    for epoch in range(20):
        total = pa.array([Decimal(5 * epoch)], schema.field("total").type)
        stand.observe(epoch, pa.table({"epoch": [epoch], "total": total}, schema=schema))
        stand.learn()
    assert stand.predict(20, AMPLE_S).rows.schema == schema
    assert stand.predict(20, AMPLE_S).rows["total"].to_pylist() == [Decimal("99.99")]  # the most that the column holds


def test_times_go_on_as_they_went():
    schema = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("cpu", pa.float64())])
    stand = EpochPredictor(columns_of(schema, []))
    for epoch in range(10):
        time = pa.array([1_000_000 * (60 + 5 * epoch)]).cast(schema.field("time").type)
        stand.observe(epoch, pa.table({"time": time, "cpu": [1.0]}, schema=schema))
    assert stand.predict(11, AMPLE_S).rows["time"].cast(pa.int64()).to_pylist() == [1_000_000 * (60 + 55)]


def series_of(kind, value, *, epochs=25):
    """A stand-in for a stream of one key whose one column is of this type, after so many epochs."""
    schema = pa.schema([("seq", pa.int64()), ("x", kind), ("cpu", pa.float64())])
    stand = EpochPredictor(columns_of(schema, []))
    for epoch in range(epochs):
        x = pa.array([value(epoch)], kind)
        stand.observe(epoch, pa.table({"seq": [epoch], "x": x, "cpu": [1.0]}, schema=schema))
        stand.learn()
    return stand


@pytest.mark.parametrize(
    ("kind", "value", "predicted"),
    [
        (pa.decimal128(18, 2), lambda epoch: Decimal("9999999999999999.99"), Decimal("9999999999999998.00")),
        (pa.decimal128(38, 18), lambda epoch: Decimal(4 * 10**18) * epoch, Decimal(99999999999999983616)),
        (pa.float32(), lambda epoch: 1.4e37 * epoch, float(np.finfo(np.float32).max)),
        (pa.float16(), lambda epoch: np.float16(2600.0 * epoch), 65504.0),
        (pa.int8(), lambda epoch: 5 * epoch, 127),
        (pa.uint64(), lambda epoch: 2**64 - 1, 2**64 - 2048),
        (pa.bool_(), lambda epoch: epoch % 2 == 0, True),
        (pa.duration("us"), lambda epoch: timedelta(seconds=epoch), timedelta(seconds=24)),
        (pa.list_(pa.int64()), lambda epoch: [epoch], [24]),
        (pa.null(), lambda epoch: None, None),
        (pa.float64(), lambda epoch: None, None),
    ],
    ids=str,
)
def test_every_type_of_column_stays_what_it_is_and_as_large_as_it_can_be(kind, value, predicted):
    made = series_of(kind, value).predict(27, AMPLE_S).rows
    made.validate(full=True)
    assert made["x"].type == kind
    assert made["x"].to_pylist() == [predicted]


@pytest.mark.parametrize(
    ("missing", "second"), [(lambda epoch: epoch == 0, 27 * 5), (lambda epoch: epoch % 3 == 1, 27 * 5), (lambda epoch: True, None)]
)
def test_a_time_that_is_not_always_told_goes_on_as_it_went_and_one_that_never_is_stays_untold(missing, second):
    began = datetime(2020, 1, 1, tzinfo=UTC)
    stand = series_of(pa.timestamp("us", "UTC"), lambda epoch: None if missing(epoch) else began + timedelta(seconds=5 * epoch))
    made = stand.predict(27, AMPLE_S).rows["x"].to_pylist()
    assert made == [None if second is None else began + timedelta(seconds=second)]


def test_a_key_that_is_no_number_is_one_key():
    schema = pa.schema([("level", pa.float64()), ("cpu", pa.float64())])
    stand = EpochPredictor(columns_of(schema, ["level"]))
    for epoch in range(20):
        stand.observe(epoch, pa.table({"level": [float("nan"), 1.0], "cpu": [5.0, 6.0]}, schema=schema))
    assert stand.keys == 2
    assert stand.predict(20, AMPLE_S).rows["cpu"].to_pylist() == [5.0, 6.0]


def test_of_two_that_are_within_the_tolerance_the_closer_is_chosen():
    stand = watched(stand_in([make("last-outcome"), make("stride")], tolerance=0.2), range(30))
    assert stand.predict(30, AMPLE_S).used == {"stride": 4}


def test_each_key_gets_the_algorithm_that_serves_it():
    stand = stand_in([make("last-outcome"), make("stride")])
    rng = np.random.default_rng(1)
    for epoch in range(60):
        watched(stand, [epoch], cpu=[10.0 * 1.2 ** (epoch % 20) if epoch % 20 else 10.0, 50 + rng.choice([-2.4, 2.4])])
    within = {a["name"]: a["next"]["cpu"]["within"] for a in view(stand)["algorithms"]}
    used = stand.predict(60, AMPLE_S).used
    assert set(used) == {"last-outcome", "stride"}
    assert 0 < within["last-outcome"] < 1


def test_without_time_the_last_outcome_stands_in():
    stand = watched(stand_in(), range(30))
    made = stand.predict(30, 0.0)
    assert set(made.used) == {"last-outcome"}
    assert made.rows["cpu"].to_pylist() == [39.0, 49.0]


def test_an_algorithm_that_needs_more_than_is_left_is_not_begun():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Clock()

    def slow(answer):
        clock.now += 2.0
        return answer + 1.0

    stand = EpochPredictor(
        columns_of(SCHEMA, ["rack"], blank=["note"]),
        [Broken(slow, name="slow"), LastOutcome()],
        settings=PredictorSettings(slow_s=100.0),
        clock=clock,
    )
    watched(stand, range(30))
    assert stand.predict(30, 10.0).used == {"slow": 4}
    before = clock.now
    assert stand.predict(30, 1.0).used == {"last-outcome": 4}
    assert clock.now == before


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (raising, "forecast raised ValueError: no idea"),
        (lambda answer: answer * np.nan, "forecast gave NaN or infinity for 1 of 1 series with enough values"),
        (lambda answer: answer[:, :0], r"forecast gave an array of shape \(1, 0\); wanted \(1, 1\)"),
        (exiting, "forecast raised SystemExit: 3"),
        (interrupting, "forecast raised KeyboardInterrupt"),
        (lambda answer: "tomorrow", "forecast raised ValueError: could not convert string to float: 'tomorrow'"),
    ],
)
def test_an_algorithm_that_misbehaves_is_out_and_nobody_notices(how, said):
    broken = Broken(how)
    stand = watched(stand_in([broken, LastOutcome()], penalty=5), range(20))
    made = stand.predict(20, AMPLE_S)
    assert made.used == {"last-outcome": 4}
    shown = next(a for a in view(stand)["algorithms"] if a["name"] == "broken")
    assert shown["out"]
    assert shown["next"]["cpu"] is None
    assert re.search(said, shown["reason"])
    assert broken.calls <= 3  # out for 5 epochs, then for 10


def test_an_algorithm_that_fails_while_it_answers_is_stood_in_for():
    stand = stand_in([Broken(raising, after=2 * 20 + 6), make("last-outcome")])
    watched(stand, range(20))
    broken = stand.standings[0].predictor
    broken.after = broken.calls
    stand._near._sums[:, :, 0, 1] = stand._near._sums[:, :, 0, 0]  # the best there is, until now
    stand._near._sums[:, :, 1, 1] = 0.0
    made = stand.predict(20, AMPLE_S)
    assert made.used == {"last-outcome": 4}
    assert made.rows["cpu"].to_pylist() == [29.0, 39.0]
    assert stand.standings[0].reason == "forecast raised ValueError: no idea"


@pytest.fixture
def hanging():
    """What never returns, until the test is over."""
    over = threading.Event()
    yield lambda answer: answer if over.wait(60) else None
    over.set()


def test_an_algorithm_that_hangs_while_it_is_tried_is_never_asked_again_and_holds_up_nobody(hanging):
    stand = stand_in([Broken(hanging), LastOutcome()], slow_s=0.02, penalty=1)
    watched(stand, range(20))
    assert stand.standings[0].predictor.calls == 1
    shown = view(stand)["algorithms"][0]
    assert (shown["out"], shown["epochs_out"], shown["reason"]) == (True, None, "forecast has not returned after 0.2 s")
    assert stand.predict(20, AMPLE_S).rows["cpu"].to_pylist() == [29.0, 39.0]


def test_an_algorithm_that_is_not_there_at_once_is_tried_again_where_there_was_no_time_to_wait(hanging):
    stand = stand_in([Broken(hanging), LastOutcome()], penalty=2)
    for epoch in range(4):
        stand.observe(epoch, rows(epoch, ["a", "b"]))
        stand.learn(limit_s=0.05)
    assert stand.standings[0].predictor.calls == 2
    assert view(stand)["algorithms"][0]["epochs_out"] == 3


def test_an_algorithm_that_hangs_while_it_answers_is_waited_for_until_the_deadline(hanging):
    columns = columns_of(SCHEMA, ["rack"], blank=["note"])
    costs_nothing = EpochPredictor(
        columns, [Broken(hanging, after=10**6)], settings=PredictorSettings(slow_s=60.0), clock=lambda: 0.0
    )
    stand = watched(costs_nothing, range(20))
    broken = stand.standings[0].predictor
    broken.after = broken.calls
    made = stand.predict(20, 0.5)
    assert made.used == {"last-outcome": 4}
    assert made.rows["cpu"].to_pylist() == [29.0, 39.0]
    assert stand.standings[0].reason == "forecast has not returned after 0.5 s"


def spinning(answer):
    while True:
        pass


def test_an_algorithm_that_computes_for_ever_does_not_take_cpu_for_ever():
    stand = watched(stand_in([Broken(spinning, name="spinner")], slow_s=0.02), range(1))
    assert stand.standings[0].reason == "forecast has not returned after 0.2 s"
    for thread in threading.enumerate():
        if thread.name == "forecast of spinner":
            thread.join(60)
            assert not thread.is_alive()


class Scribbler(Broken):
    """An algorithm that writes to what it is given."""

    def forecast(self, history, learned, *, steps):
        history[:] = -1e9
        return super().forecast(history, learned, steps=steps)


def test_an_algorithm_that_writes_to_what_it_is_given_spoils_nothing_for_the_others():
    stand = watched(stand_in([Scribbler(lambda answer: answer, name="scribbler"), make("stride")]), range(20))
    assert view(stand)["algorithms"][1]["next"]["cpu"]["within"] > 0.9
    assert stand.predict(20, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([30.0, 40.0])


def sleeping(answer):
    time.sleep(0.06)
    return answer


class Burning(LastOutcome):
    """An algorithm that comes with holdfast, as far as anyone can tell, and computes for long."""

    __module__ = "holdfast.prediction.burning"

    def forecast(self, history, learned, *, steps):
        ends_s = time.thread_time() + 0.1
        while time.thread_time() < ends_s:
            pass
        return super().forecast(history, learned, steps=steps)


@pytest.mark.parametrize("slow", [Burning(), Broken(sleeping, name="last-outcome")])
def test_an_algorithm_that_computes_or_sleeps_for_too_long_is_out(slow):
    stand = stand_in([slow], slow_s=0.2)
    watched(stand, range(3))
    assert "wanted at most 0.2 s a round" in stand.standings[0].reason
    assert stand.predict(3, AMPLE_S).used == {"last-outcome": 4}


class Jumping:
    """A clock that stands still, but for one reading at which half a minute has passed."""

    now_s, until = 0.0, 0

    def __call__(self):
        self.until -= 1
        self.now_s += 30.0 if self.until == 0 else 0.0
        return self.now_s


@pytest.mark.parametrize("reading", [3, 4, 5, 6])
def test_an_agent_that_was_stopped_while_an_algorithm_ran_blames_nobody_and_goes_on_as_before(reading):
    clock = Jumping()
    stand = EpochPredictor(columns_of(SCHEMA, ["rack"], blank=["note"]), [make("stride")], clock=clock)
    watched(stand, range(20))
    stand.observe(20, rows(20, ["a", "b"]))
    clock.until = reading
    stand.learn()
    assert clock.now_s == 30.0
    assert (stand.standings[0].faults, stand.standings[0].reason) == (0, "")
    assert stand.predict(21, 1.0).used == {"stride": 4}


class Stopped:
    """A thread that takes so many looks to end, and a clock by which this process is stopped for a while at the first of them."""

    def __init__(self, looks, *, stopped_s):
        self.looks, self.stopped_s, self.now_s = looks, stopped_s, 0.0

    def is_alive(self):
        return self.looks > 0

    def join(self, timeout):
        self.now_s += timeout + self.stopped_s
        self.looks, self.stopped_s = self.looks - 1, 0.0

    def monotonic(self):
        return self.now_s


@pytest.mark.parametrize(("looks", "waited_s", "ended"), [(4, 0.4, True), (100, 0.8, False)])
def test_seconds_in_which_the_agent_is_stopped_do_not_count_as_waiting_for_an_algorithm(monkeypatch, looks, waited_s, ended):
    thread = Stopped(looks, stopped_s=30.0)
    monkeypatch.setattr(guarded_calls, "time", thread)
    assert guarded_calls._await(thread, 0.8) == pytest.approx(waited_s)
    assert (not thread.is_alive()) is ended


def test_faults_are_forgiven_after_a_clean_spell():
    broken = Broken(raising)
    stand = stand_in([broken, LastOutcome()], penalty=2)
    watched(stand, range(4))
    assert stand.standings[0].faults == 2  # out for 2 epochs, then for 4
    broken.after = 10**9
    watched(stand, range(4, 20))
    assert stand.standings[0].faults == 2
    watched(stand, range(20, 40))
    assert (stand.standings[0].faults, stand.standings[0].reason) == (0, "")
    broken.after = 0
    watched(stand, range(40, 42))
    assert (stand.standings[0].faults, view(stand)["algorithms"][0]["epochs_out"]) == (1, 1)


def test_too_little_history_is_said_and_the_last_outcome_stands_in():
    made = watched(stand_in(least_outputs=8), range(3)).predict(3, AMPLE_S)
    assert made.why == ("2 of 2 keys have had fewer than 8 outputs; a prediction needs 8: standing in with their last outcome")
    assert made.rows["cpu"].to_pylist() == [12.0, 22.0]
    assert made.short == 2


def test_too_little_history_makes_it_abstain_if_the_contract_says_so():
    stand = watched(stand_in(short="abstain"), range(3))
    made = stand.predict(3, AMPLE_S)
    assert made.rows is None
    assert "they are left out" in made.why
    watched(stand, range(3, 12), racks="abc")
    assert stand.predict(12, AMPLE_S).rows["rack"].to_pylist() == ["a", "b", "c"]
    watched(stand, [12], racks="abcd")
    assert stand.predict(13, AMPLE_S).rows["rack"].to_pylist() == ["a", "b", "c"]


def test_nothing_observed_is_nothing_predicted():
    made = stand_in().predict(0, AMPLE_S)
    assert made.rows is None
    assert made.why == "no output was observed yet; a prediction needs 8 per key"


def test_an_epoch_without_rows_is_an_epoch():
    stand = watched(stand_in(), range(20))
    stand.observe(20, SCHEMA.empty_table())
    assert stand.predict(21, AMPLE_S).rows.num_rows == 2


def test_epochs_ascend():
    stand = watched(stand_in(), range(3))
    with pytest.raises(HoldfastError, match="epoch 2 was observed after epoch 2; epochs are observed once, in their order"):
        stand.observe(2, rows(2, ["a"]))
    with pytest.raises(HoldfastError, match="epoch 1 is to be predicted, but epoch 2 was observed; predict a later one"):
        stand.predict(1, AMPLE_S)
    with pytest.raises(HoldfastError, match="rows to learn from lack cpu; they have: seq"):
        stand.observe(3, rows(3, ["a"]).drop_columns(["cpu"]))


def test_missing_epochs_are_left_out_and_judge_nobody():
    stand = watched(stand_in([LastOutcome()]), range(10))
    before = view(stand)["algorithms"][0]["next"]["cpu"]["outcomes"]
    watched(stand, [15])
    assert view(stand)["algorithms"][0]["next"]["cpu"]["outcomes"] == before
    assert stand.predict(16, AMPLE_S).rows.num_rows == 2


def test_memory_is_bounded_in_keys_and_in_depth():
    stand = stand_in([make("last-outcome"), make("autoregressive")], most_keys=10, depth=20)
    for epoch in range(40):
        watched(stand, [epoch], racks=[f"r{epoch}-{n}" for n in range(5)])
    assert stand.keys == 10
    assert stand._cache.history.shape == (20, 20)
    assert len(stand.standings[1].learned) <= 20


def test_a_key_unseen_for_long_is_forgotten_and_the_others_keep_what_they_had():
    stand = watched(stand_in(forget_after=5), range(30), racks="ab")
    watched(stand, range(30, 37), racks="b", cpu=[4.0])
    assert stand.keys == 1
    made = stand.predict(37, AMPLE_S)
    assert made.rows["rack"].to_pylist() == ["b"]
    assert made.rows["cpu"].to_pylist() == pytest.approx([4.0], rel=0.05)
    assert view(stand)["algorithms"][0]["next"]["cpu"]["outcomes"] > 20


def test_algorithms_are_changed_while_it_runs_and_what_stays_is_kept():
    stand = watched(stand_in([make("last-outcome"), make("stride")]), range(20))
    stand.use([make("autoregressive"), make("stride")])
    shown = {a["name"]: a for a in view(stand)["algorithms"]}
    assert shown["autoregressive"]["next"]["cpu"] is None
    assert shown["stride"]["next"]["cpu"]["outcomes"] > 10
    watched(stand, range(20, 40))
    assert set(stand.predict(40, AMPLE_S).used) <= {"autoregressive", "stride"}
    with pytest.raises(HoldfastError, match="wanted at least one predictor, each once, got: stride, stride"):
        stand.use([make("stride"), make("stride")])


def test_an_algorithm_that_was_never_judged_answers_where_no_other_can_and_stands_behind_all_that_were():
    stand = watched(stand_in([make("last-outcome"), make("stride")]), range(20))
    stand.use([make("long-stride")])
    assert set(stand.predict(20, AMPLE_S).used) == {"last-outcome"}  # it has not learned yet
    stand.learn()
    assert set(stand.predict(20, AMPLE_S).used) == {"long-stride"}
    watched(stand, range(20, 40))
    stand.use([make("long-stride"), make("stride"), make("last-outcome")])
    stand.learn()
    assert set(stand.predict(40, AMPLE_S).used) == {"long-stride"}


def test_of_algorithms_that_were_never_judged_the_last_outcome_answers_where_it_is_one_of_them():
    stand = watched(stand_in([make("stride")]), range(20))
    stand.use([make("long-stride"), make("autoregressive"), make("last-outcome")])
    stand.learn()
    assert set(stand.predict(20, AMPLE_S).used) == {"last-outcome"}


def test_learning_in_another_thread_gives_the_same_and_what_is_outdated_is_dropped():
    columns = columns_of(SCHEMA, ["rack"])
    here, there = (EpochPredictor(columns, clock=lambda: 0.0) for _ in range(2))  # equals are told apart by the time they take
    for epoch in range(30):
        for stand in (here, there):
            stand.observe(epoch, rows(epoch, ["a", "b"]))
        here.learn()
        work, done = there.work(), []
        thread = threading.Thread(target=lambda work=work, done=done: done.append(work.done()))
        thread.start()
        thread.join(30)
        there.accept(done[0])
    assert here.predict(30, AMPLE_S).rows == there.predict(30, AMPLE_S).rows
    work = there.work()
    there.use([LastOutcome()])
    there.accept(work.done())
    assert [standing.name for standing in there.standings] == ["last-outcome"]


def test_a_round_that_ends_late_is_judged_on_what_came_after_it():
    stand = watched(stand_in([LastOutcome()]), range(10))
    work = stand.work()
    stand.observe(10, rows(10, ["a", "b"]))
    far = view(stand)["algorithms"][0]["later"]["cpu"]
    stand.accept(work.done())
    near = view(stand)["algorithms"][0]["next"]["cpu"]["outcomes"]
    stand.observe(11, rows(11, ["a", "b"]))
    shown = view(stand)["algorithms"][0]
    assert shown["next"]["cpu"]["outcomes"] == near  # two epochs on, it says how well going on works
    assert shown["later"]["cpu"]["mae"] > 1.0
    assert far is None or far["outcomes"] < shown["later"]["cpu"]["outcomes"]


def test_the_rank_counts_what_was_predicted_before_it_was_known():
    stand = stand_in([LastOutcome()], tolerance=0.5)
    for epoch, value in enumerate([10.0, 11.0, 22.0, 20.0]):
        watched(stand, [epoch], racks="a", cpu=[value], requests=[1])
    found = view(stand)["algorithms"][0]["next"]["cpu"]
    keep = 1 - 1 / 50
    weights = np.array([keep**2, keep, 1.0])
    errors = np.array([1.0, 11.0, 2.0])
    assert found["mae"] == pytest.approx((weights * errors).sum() / weights.sum())
    assert found["mse"] == pytest.approx((weights * errors**2).sum() / weights.sum())
    assert found["rmse"] == pytest.approx(found["mse"] ** 0.5)
    assert found["within"] == pytest.approx(1.0)


@pytest.mark.parametrize("measure", ["within", "mae", "rmse", "mse"])
def test_every_measure_prefers_the_one_that_is_right(measure):
    stand = watched(stand_in([make("last-outcome"), make("stride")], measure=measure, tolerance=0.01), range(30))
    assert stand.predict(30, AMPLE_S).used["stride"] == 4


@pytest.mark.parametrize("measure", ["mae", "rmse", "mse"])
def test_a_key_that_is_always_zero_does_not_decide_for_the_others(measure):
    stand = stand_in([make("last-outcome"), make("exponential-smoothing"), make("stride")], measure=measure)
    for epoch in range(40):
        watched(stand, [epoch], cpu=[0.0, 100.0 + 5 * epoch], requests=[0, 5 * epoch])
    made = stand.predict(40, AMPLE_S)
    assert made.rows["cpu"].to_pylist() == pytest.approx([0.0, 300.0])
    assert made.used["stride"] >= 2
    assert np.isfinite(stand.ranks[0].accuracies()).all()


@pytest.mark.parametrize("measure", ["mae", "rmse", "mse"])
def test_a_small_key_is_served_by_what_serves_it_though_the_others_are_large(measure):
    stand = stand_in([make("last-outcome"), make("stride")], measure=measure)
    for epoch in range(60):
        shaking = 1e6 * (1 + 0.01 * (epoch % 2))
        watched(stand, [epoch], racks="abcd", cpu=[1.1**epoch, shaking, shaking, shaking], requests=[1] * 4)
    assert stand.predict(60, AMPLE_S).rows["cpu"].to_pylist()[0] == pytest.approx(2 * 1.1**59 - 1.1**58)


@settings(max_examples=15)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=2, max_size=25), st.integers(1, 12))
def test_whatever_keys_come_and_go_a_prediction_has_the_schema_known_keys_and_finite_numbers(epochs, ahead):
    stand = stand_in(most_keys=4, forget_after=6)
    for epoch, racks in enumerate(epochs):
        watched(stand, [epoch], racks=racks)
    made = stand.predict(len(epochs) - 1 + ahead, AMPLE_S)
    if made.rows is None:
        return
    assert made.rows.schema == SCHEMA
    assert set(made.rows["rack"].to_pylist()) <= {rack for racks in epochs for rack in racks}
    assert np.isfinite(made.rows["cpu"].to_numpy()).all()
    seq = made.rows["seq"].to_numpy()
    assert (np.diff(seq) >= 0).all()
    made.rows.validate(full=True)


def test_columns_that_do_not_fit_are_told_all_at_once():
    with pytest.raises(CompoundError, match="column 'epoch' may not be null") as error:
        columns_of(SCHEMA, ["rack"], blank=["epoch", "rack", "note"], carry=["note"], stream="racks")
    assert len(error.value.errors) == 3
    with pytest.raises(CompoundError, match="prediction of stream 'racks': the key names column 'rock', which does not exist"):
        columns_of(SCHEMA, ["rock"], stream="racks")
    with pytest.raises(CompoundError, match=r"let 'predicting\.keys' name columns that say whose row it is, or none"):
        columns_of(SCHEMA, ["rock"], stream="racks")
    nested = pa.schema([("place", pa.struct([("rack", pa.string())])), ("cpu", pa.float64())])
    with pytest.raises(CompoundError, match="column 'place' is part of the key, which cannot be of type struct<rack: string>"):
        columns_of(nested, ["place"])
    with pytest.raises(CompoundError, match="no column to predict"):
        columns_of(SCHEMA, ["rack"], carry=["cpu", "requests"])


def test_settings_that_cannot_be_are_told_all_at_once():
    with pytest.raises(CompoundError, match="settings of prediction has 4 errors") as error:
        PredictorSettings(depth=1, measure="luck", tolerance=2.0, short="shrug")
    assert "depth wants a whole number of at least 2, got 1" in str(error.value)


def test_the_view_is_one_json_document():
    stand = watched(stand_in(default_predictors()), range(20))
    stand.predict(20, AMPLE_S)
    shown = json.loads(json.dumps(view(stand), allow_nan=False))
    assert shown["keys"] == 2
    assert shown["predictions"] == 1
    assert sum(shown["last_used"].values()) == 4
    assert [a["name"] for a in shown["algorithms"]] == [p.name for p in default_predictors()]
