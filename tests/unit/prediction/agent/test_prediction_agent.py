"""A prediction agent on a real log, without processes: what it commits, when, and what it makes of what comes late."""

import json
from concurrent.futures import Executor, Future

import numpy as np
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast.documents.document import check_document
from holdfast.documents.job import Contract, Job, Predicting, Reading, Task
from holdfast.errors import CompoundError, DocumentError, HoldfastError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.prediction.agent import inputs, watched_stream
from holdfast.prediction.agent.inputs import Input, input_rows
from holdfast.prediction.agent.prediction_agent import CALM_POLL_S, POLL_S, PredictionAgent
from holdfast.prediction.agent.process import AgentProcess
from holdfast.prediction.contract_terms import check_orders, check_protection
from holdfast.protocol.messages import AssignedAgent
from holdfast.runtime.output_writer import OutputWriter

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
TASK = Task(pe="racks", reads=(Reading(stream="src"),), makes=("racks",))
RACKS = ("r1", "r2", "r3")


class AtOnce(Executor):
    """Learns in the thread that asks: the same every time."""

    def submit(self, call, /, *args, **named):
        done = Future()
        done.set_result(call(*args, **named))
        return done


class World:
    """A PE that commits when it is told to, its agent, and the time."""

    def __init__(self, *, keys=("rack",), **terms):
        self.store, self.now_s, self.told = Store(MemoryStore()), 0.0, []
        self.log = EpochLog(self.store)
        self.contract = Contract(protection="prediction", deadline_s=1.0, predicting=Predicting(**terms))
        self.keys, self.ahead_s = keys, 0.0
        self.agent = self.new_agent()

    def new_agent(self):
        tell = lambda kind, about: self.told.append((kind, about))  # noqa: E731
        outbox = OutputWriter(self.store, 0, "agent of racks/0 on n2", TIMELINE, tell, clock=lambda: self.now_s)
        return PredictionAgent(
            TASK,
            self.contract,
            keys={"racks": self.keys},
            outbox=outbox,
            stores=[self.store],
            learner=AtOnce(),
            clock=lambda: self.now_s,
            timer=lambda: self.now_s,  # nothing takes any time, however busy the machine
        )

    def commit(self, stream, epoch, rows, quality=Quality.EXACT):
        box = OutputWriter(self.store, 0, f"{stream}/0.0 on n1", TIMELINE, lambda *_: None, clock=lambda: self.now_s + self.ahead_s)
        box.publish(stream, epoch, rows=rows, quality=quality)

    def feed(self, epoch):
        self.commit("src", epoch, pa.table({"seq": np.arange(100 * epoch + 1, 100 * epoch + 101)}))

    def make(self, epoch, quality=Quality.EXACT):
        seq = [100 * epoch + 30 * (n + 1) for n in range(3)]
        self.commit("racks", epoch, pa.table({"seq": seq, "epoch": [epoch] * 3, "rack": RACKS, "cpu": [10.0, 20.0, 30.0]}), quality)

    def run(self, epochs, *, makes=True):
        """Let epochs pass, each made 0.2 s after its input where the PE makes them."""
        for epoch in epochs:
            self.now_s = TIMELINE.closes_s(epoch)
            self.feed(epoch)
            self.agent.step()
            self.now_s += 0.2
            if makes:
                self.make(epoch)
            self.agent.step()
            self.now_s += 0.75
            self.agent.step()

    def first(self, epoch):
        record = self.log.first("racks", 0, epoch=epoch)
        return None if record is None else record.quality.value


def test_a_late_epoch_is_committed_as_predicted_shortly_before_its_deadline():
    world = World()
    world.run(range(1, 13))
    world.now_s = TIMELINE.closes_s(13)
    world.feed(13)
    world.agent.step()
    world.now_s += 0.7
    world.agent.step()
    assert world.first(13) is None
    world.now_s += 0.15
    world.agent.step()
    record = world.log.first("racks", 0, epoch=13)
    assert record.quality is Quality.PREDICTED
    rows = read_rows(world.store, record.files[0])
    assert rows["rack"].to_pylist() == list(RACKS)
    assert rows["cpu"].to_pylist() == pytest.approx([10.0, 20.0, 30.0])
    assert rows["epoch"].to_pylist() == [13] * 3
    assert all(1300 < seq <= 1400 for seq in rows["seq"].to_pylist())
    assert record.committed_s <= TIMELINE.closes_s(13) + 1.0


class Echoing(World):
    """A PE whose output is its input's, which nobody can foresee."""

    def feed(self, epoch, quality=Quality.EXACT):
        self.commit("src", epoch, self.said(epoch), quality)

    def make(self, epoch, quality=Quality.EXACT):
        self.commit("racks", epoch, self.said(epoch), quality)

    @staticmethod
    def said(epoch):
        cpu = np.random.default_rng(epoch).uniform(1.0, 99.0, 3)
        return pa.table({"seq": [100 * epoch + n for n in range(3)], "epoch": [epoch] * 3, "rack": RACKS, "cpu": cpu})

    def predicted(self, epoch):
        record = self.log.first("racks", 0, epoch=epoch)
        assert record.quality is Quality.PREDICTED
        return read_rows(self.store, record.files[0])["cpu"].to_pylist()


def test_what_the_input_of_a_late_epoch_says_already_is_taken_from_there():
    world = Echoing()
    world.run(range(1, 16))
    world.run(range(16, 19), makes=False)
    for epoch in (16, 17, 18):
        assert world.predicted(epoch) == pytest.approx(world.said(epoch)["cpu"].to_pylist())
    seen = world.agent.view()["streams"]["racks"]
    assert seen["last_used"] == {"echo": 3}
    assert seen["from_input"]["cpu"]["is"] == "mean of src.cpu"
    assert world.agent.view() == json.loads(json.dumps(world.agent.view()))


@pytest.mark.parametrize(("slow", "looks"), [([15], True), ([11, 12, 13, 14, 15], False)])
def test_the_input_is_looked_at_where_that_usually_takes_a_fraction_of_what_is_left(monkeypatch, slow, looks):
    world, read = Echoing(), watched_stream.input_rows

    def held_up(inputs, epoch, *, final):
        world.now_s += 0.5 if epoch in slow else 0.0
        return read(inputs, epoch, final=final)

    monkeypatch.setattr(watched_stream, "input_rows", held_up)
    world.run(range(1, 16))
    world.run([16], makes=False)
    assert (world.predicted(16) == pytest.approx(world.said(16)["cpu"].to_pylist())) is looks


def test_an_input_that_was_predicted_itself_is_good_enough_to_predict_from():
    world = Echoing()
    world.run(range(1, 16))
    world.now_s = TIMELINE.closes_s(16)
    world.feed(16, Quality.PREDICTED)
    world.agent.step()
    world.now_s += 0.95
    world.agent.step()
    assert world.predicted(16) == pytest.approx(world.said(16)["cpu"].to_pylist())
    world.feed(16)
    world.make(16)
    world.run(range(17, 20))
    assert world.agent.corrected == 1


@pytest.mark.parametrize("reason", ["the contract", "absent rows", "many rows", "a lost file", "a broken file"])
def test_an_input_that_may_not_or_cannot_be_read_leaves_it_to_history(reason, monkeypatch):
    world = Echoing(from_input=reason != "the contract")
    world.run(range(1, 16))
    world.now_s = TIMELINE.closes_s(16)
    if reason == "many rows":
        monkeypatch.setattr(inputs, "MOST_ROWS", 2)
    if reason == "absent rows":
        world.commit("src", 16, world.said(16).slice(0, 0), Quality.ABSENT)
    else:
        world.feed(16)
    world.agent.step()
    (file,) = world.log.first("src", 0, epoch=16).files or [None]
    if reason in ("a lost file", "a broken file"):
        world.store.remove([file])
    if reason == "a broken file":
        world.store.create(file, b"no Parquet")
    world.now_s += 0.95
    world.agent.step()
    world.predicted(16)
    assert "echo" not in world.agent.view()["streams"]["racks"]["last_used"]


def test_of_a_divided_input_only_the_tasks_own_rows_are_read():
    store = Store(MemoryStore())
    outbox = OutputWriter(store, 0, "src/0.0 on n1", TIMELINE, lambda *_: None)
    outbox.publish("src", 1, rows=Echoing.said(1), quality=Quality.EXACT)
    shares = [Input(Reading(stream="src", key=("rack",), share=share, of=2), store, 0) for share in range(2)]
    found = [input_rows([each], 1, final=True) for each in shares]
    racks = [rack for (table,), exact in found for rack in table["rack"].to_pylist() if exact]
    assert sorted(racks) == list(RACKS)
    assert input_rows(shares[:1], 2, final=False) is None


def test_while_the_pe_is_away_the_next_epoch_is_predicted_as_soon_as_its_input_is_there():
    world = World()
    world.run(range(1, 13))
    world.run([13], makes=False)
    world.now_s = TIMELINE.closes_s(14)
    world.feed(14)
    world.agent.step()
    assert world.first(14) == "predicted"


def test_a_pe_that_can_correct_nothing_since_its_input_is_predicted_shows_by_a_tentative_epoch_that_it_is_back():
    world = World()
    world.run(range(1, 13))
    world.run(range(13, 17), makes=False)
    world.now_s = TIMELINE.closes_s(17)
    world.feed(17)
    world.agent.step()
    assert world.first(17) is None
    world.now_s += 0.1
    world.make(17, Quality.TENTATIVE)
    world.agent.step()
    assert (world.first(17), world.agent.state) == ("tentative", "watching")


def test_a_pe_that_is_back_is_given_its_whole_deadline_again_and_its_late_epochs_are_learned():
    world = World()
    world.run(range(1, 13))
    world.run(range(13, 16), makes=False)
    for epoch in (13, 14, 15):
        world.make(epoch)
    world.agent.step()
    assert world.agent.corrected == 3
    assert world.agent.monitor.predicted_in_a_row == 0
    assert world.agent.streams[0].learned == 15
    assert world.log.final("racks", 0, epoch=14).producer == "racks/0.0 on n1"
    world.now_s = TIMELINE.closes_s(16)
    world.feed(16)
    world.now_s += 0.5
    world.agent.step()
    assert world.first(16) is None


def test_what_comes_late_is_learned_but_corrects_nothing_where_the_contract_drops_it():
    world = World()
    world.contract = world.contract.model_copy(update={"correction": False})
    world.agent = world.new_agent()
    world.run(range(1, 13))
    world.run(range(13, 15), makes=False)
    for epoch in (13, 14):
        world.make(epoch)
    world.agent.step()
    shown = world.agent.view()
    assert (shown["predicted"], shown["corrected"], shown["state"]) == (2, 0, "watching")
    assert shown["streams"]["racks"]["scored_epochs"] == 2
    assert world.first(13) == "predicted"


def test_its_own_predictions_are_judged_when_the_truth_comes():
    world = World()
    world.run(range(1, 13))
    world.run([13], makes=False)
    world.make(13)
    world.agent.step()
    (stream,) = world.agent.view()["streams"].values()
    assert (stream["accuracy"], stream["scored_epochs"]) == (1.0, 1)


def test_after_the_most_epochs_in_a_row_it_hands_over_until_the_pe_is_back():
    world = World(most_epochs=2)
    world.run(range(1, 13))
    world.run(range(13, 17), makes=False)
    assert [world.first(epoch) for epoch in range(13, 17)] == ["predicted", "predicted", None, None]
    assert (world.agent.state, world.agent.predicted) == ("handed over", 2)
    for epoch in range(13, 17):
        world.make(epoch)
    world.agent.step()
    assert world.agent.state == "watching"


def test_an_agent_that_slept_while_its_pe_was_away_predicts_no_more_than_it_may():
    world = World(most_epochs=4)
    world.run(range(1, 13))
    world.run([13], makes=False)
    for epoch in range(14, 24):
        world.now_s = TIMELINE.closes_s(epoch)
        world.feed(epoch)
    world.agent.step()
    assert [world.first(epoch) for epoch in range(13, 19)] == ["predicted"] * 4 + [None] * 2
    assert world.agent.state == "handed over"


def test_without_any_history_it_abstains_once_per_epoch_and_says_what_is_needed():
    world = World()
    world.run([1, 2], makes=False)
    assert world.first(1) is None
    assert world.agent.abstained == 1
    assert world.agent.why == "no output was observed yet; a prediction needs 8 per key"
    assert [kind for kind, _ in world.told] == ["abstained"]


def test_keys_with_too_little_history_are_left_out_where_the_contract_says_so():
    world = World(short="abstain", least_outputs=8)
    world.run([1, 2, 3])
    world.run([4], makes=False)
    assert world.first(4) is None
    assert world.agent.why == "3 of 3 keys have had fewer than 8 outputs; a prediction needs 8: they are left out"


def test_an_agent_that_was_killed_learns_again_from_what_the_log_still_has():
    world = World()
    world.run(range(1, 20))
    world.agent = world.new_agent()
    world.run([20], makes=False)
    assert world.first(20) == "predicted"
    assert world.agent.streams[0].stand_in.turns == 19


def test_an_agent_that_was_killed_ranks_its_algorithms_on_what_the_log_still_has(monkeypatch):
    monkeypatch.setattr(watched_stream, "RANKING_S", 60.0)  # however busy the machine is
    world = World()
    for epoch in range(1, 31):
        world.now_s = TIMELINE.closes_s(epoch)
        world.feed(epoch)
        rising = pa.table({"seq": [100 * epoch + 30], "epoch": [epoch], "rack": ["r1"], "cpu": [10.0 * epoch]})
        world.commit("racks", epoch, rising)
    world.agent = world.new_agent()
    world.run([31], makes=False)
    record = world.log.first("racks", 0, epoch=31)
    assert read_rows(world.store, record.files[0])["cpu"].to_pylist() == pytest.approx([310.0])


def test_what_an_agent_predicted_before_it_was_killed_counts_towards_the_most_in_a_row():
    world = World(most_epochs=4)
    world.run(range(1, 13))
    world.run(range(13, 16), makes=False)
    world.agent = world.new_agent()
    world.agent.step()
    assert world.agent.state == "predicting"
    world.run(range(16, 19), makes=False)
    assert [world.first(epoch) for epoch in range(16, 19)] == ["predicted", None, None]
    assert world.agent.state == "handed over"
    for epoch in range(13, 19):
        world.make(epoch)
    world.agent.step()
    assert (world.agent.state, world.agent.corrected) == ("watching", 4)


def test_an_agent_that_was_killed_knows_how_long_the_pe_usually_takes():
    world = World()
    world.run(range(1, 13))
    world.agent = world.new_agent()
    world.agent.step()
    assert world.agent.monitor.usual_s == pytest.approx(0.2)


def test_what_was_predicted_and_corrected_before_an_agent_looked_ends_the_row():
    world = World(most_epochs=3)
    world.run(range(1, 13))
    world.run([13, 14], makes=False)
    for epoch in (13, 14):
        world.make(epoch)
    world.run([15], makes=False)
    world.agent = world.new_agent()
    world.agent.step()
    assert world.agent.monitor.predicted_in_a_row == 1


def test_an_agent_that_slept_while_the_pe_s_input_was_trimmed_sees_later_input():
    world = World()
    world.run(range(1, 4))
    for epoch in range(4, 30):
        world.now_s = TIMELINE.closes_s(epoch)
        world.feed(epoch)
        world.make(epoch)
    world.log.trim("src", 0, after=0, until=25)
    world.agent.step()
    world.run([30], makes=False)
    assert world.first(30) == "predicted"


def test_an_agent_that_can_say_nothing_or_has_handed_over_looks_no_more_often_than_else():
    world = World(short="abstain", least_outputs=8)
    world.run([1, 2, 3])
    world.run([4], makes=False)
    made = world.agent.streams[0].stand_in
    made.predict = None  # nothing was learned, so it is not asked again
    assert world.agent.step() == POLL_S
    world = World(most_epochs=1)
    world.run(range(1, 13))
    world.run([13, 14], makes=False)
    assert world.agent.state == "handed over"
    assert world.agent.step() == POLL_S


def wait(world, until_s):
    """Let the agent look as often as it wants to until then."""
    while world.now_s < until_s:
        world.now_s = min(until_s, world.now_s + world.agent.step())


def test_an_agent_whose_pe_is_in_time_looks_a_few_times_a_second():
    world = World()
    world.run(range(1, 13))
    assert world.agent.step() == pytest.approx(0.2)
    world.agent.change(check_orders({"deadline_s": 30.0}, world.contract, epoch_s=1.0).applied_to(world.contract))
    assert world.agent.step() == CALM_POLL_S


@pytest.mark.parametrize("later_s", [0.0, 0.01, 0.07, 0.13, 0.19])
def test_however_seldom_it_looks_a_late_epoch_is_predicted_at_its_moment(later_s):
    world = World()
    world.run(range(1, 13))
    wait(world, TIMELINE.closes_s(13) + later_s)
    fed_s = world.now_s
    world.feed(13)
    wait(world, fed_s + 2.0)
    assert fed_s + 0.8 <= world.log.first("racks", 0, epoch=13).committed_s <= fed_s + 0.81


@pytest.mark.parametrize("ahead_s", [-30.0, -3.0, 3.0, 30.0])
def test_a_node_whose_clock_is_behind_or_ahead_is_not_taken_for_late_and_a_late_one_still_is(ahead_s):
    world = World()
    world.ahead_s = ahead_s
    for epoch in range(1, 31):
        wait(world, TIMELINE.closes_s(epoch))
        world.feed(epoch)
        wait(world, TIMELINE.closes_s(epoch) + 0.3)
        world.make(epoch)
    wait(world, TIMELINE.closes_s(31))
    assert (world.agent.predicted, world.agent.monitor.misses) == (0, 0)
    assert 0.05 <= world.agent.monitor.usual_s <= 0.6
    fed_s = world.now_s
    world.feed(31)
    wait(world, fed_s + 2.0)
    assert fed_s + 0.5 <= world.log.first("racks", 0, epoch=31).committed_s <= fed_s + 1.0


def test_what_is_predicted_where_nothing_went_in_does_not_reach_into_the_next_epoch_s_seqs():
    world = World()
    world.run(range(1, 13))
    world.now_s = TIMELINE.closes_s(13)
    world.commit("src", 13, pa.table({"seq": pa.array([], pa.int64())}))
    world.agent.step()
    world.now_s += 0.9
    world.agent.step()
    assert world.log.first("racks", 0, epoch=13).last_seq == 1300  # the last that went in before


def test_a_prediction_that_came_too_late_is_not_judged():
    world = World()
    world.run(range(1, 13))
    world.now_s = TIMELINE.closes_s(13)
    world.feed(13)
    world.agent.step()
    predict = world.agent.streams[0].predict

    def slow(epoch, **more):
        world.make(epoch)  # while the agent predicts
        return predict(epoch, **more)

    world.agent.streams[0].predict = slow
    world.now_s += 0.9
    world.agent.step()
    world.agent.step()
    assert (world.first(13), world.agent.streams[0].learned) == ("exact", 13)
    assert (world.agent.predicted, world.agent.streams[0].view()["scored_epochs"]) == (0, 0)


def test_tentative_output_is_the_pe_s_own_and_is_not_learned_from():
    world = World()
    world.run(range(1, 13))
    world.now_s = TIMELINE.closes_s(13)
    world.feed(13)
    world.make(13, Quality.TENTATIVE)
    world.agent.step()
    assert world.agent.monitor.misses == 0
    assert world.agent.streams[0].learned == 12


def test_columns_that_cannot_be_predicted_are_told_and_change_nothing_else():
    world = World(keys=("server",))
    world.run(range(1, 4))
    assert world.agent.state == "broken"
    assert "the key names column 'server', which does not exist" in world.agent.error
    world.run([4], makes=False)
    assert world.first(4) is None


def test_an_epoch_that_was_made_and_trimmed_between_two_looks_keeps_no_agent_from_the_next_late_one():
    world = World()
    world.run(range(1, 13))
    world.now_s = TIMELINE.closes_s(13)
    world.feed(13)
    world.agent.step()
    world.make(13)
    world.log.trim("racks", 0, after=0, until=13)
    world.run(range(14, 17), makes=False)
    assert [world.first(epoch) for epoch in (13, 14, 15, 16)] == [None, "predicted", "predicted", "predicted"]
    assert (world.agent.monitor.made, world.agent.monitor.misses) == (16, 3)


def test_an_agent_follows_a_log_that_was_trimmed_past_it():
    world = World()
    world.run(range(1, 4))
    for epoch in range(4, 30):
        world.now_s = TIMELINE.closes_s(epoch)
        world.feed(epoch)
        world.make(epoch)
    for stream in ("src", "racks"):
        world.log.trim(stream, 0, after=0, until=25)
    world.now_s += 5.0
    world.agent.step()
    world.agent.step()
    world.run([30], makes=False)
    assert world.first(30) == "predicted"


def test_algorithms_are_changed_while_it_runs_and_only_installed_ones():
    world = World()
    world.run(range(1, 13))
    change = check_orders({"algorithms": {"stride": {}}, "deadline_s": 2.0}, world.contract, epoch_s=1.0)
    world.agent.change(change.applied_to(world.contract))
    view = world.agent.view()
    assert [each["name"] for each in view["streams"]["racks"]["algorithms"]] == ["stride"]
    assert view["deadline_s"] == 2.0
    with pytest.raises(HoldfastError, match="predictor 'oracle' is not installed; installed are: last-outcome"):
        check_orders({"algorithms": {"oracle": {}}}, world.contract, epoch_s=1.0)
    with pytest.raises(HoldfastError, match=r"deadline of 0\.5 s is below the epoch length of 1 s"):
        check_orders({"deadline_s": 0.5}, world.contract, epoch_s=1.0)


def test_all_that_is_wrong_with_a_change_is_told_at_once():
    contract = Contract(protection="prediction", deadline_s=5.0)
    with pytest.raises(DocumentError) as caught:
        check_orders({"from_input": 3, "deadline_s": 0.1, "measure": "x", "speed": 2}, contract, epoch_s=1.0)
    assert "from_input: wanted true or false, got 3" in caught.value.errors
    said = "\n".join(caught.value.errors)
    assert "the deadline of 0.1 s is below the epoch length of 1 s" in said
    assert "measure wants one of within, mae, rmse, mse, got 'x'" in said
    assert "speed: is no field" in said


def test_algorithms_that_are_changed_while_the_pe_is_away_answer_from_the_next_epoch_on():
    world = World()
    for epoch in range(1, 13):
        world.now_s = TIMELINE.closes_s(epoch)
        world.feed(epoch)
        rising = pa.table({"seq": [100 * epoch + 30], "epoch": [epoch], "rack": ["r1"], "cpu": [10.0 * epoch]})
        world.commit("racks", epoch, rising)
        world.agent.step()
    world.run([13], makes=False)
    change = check_orders({"algorithms": {"long-stride": {"span": 3}}}, world.contract, epoch_s=1.0)
    world.agent.change(change.applied_to(world.contract))
    world.agent.step()
    world.run([14], makes=False)
    record = world.log.first("racks", 0, epoch=14)
    assert record.lineage == ("long-stride: 1 values",)
    assert read_rows(world.store, record.files[0])["cpu"].to_pylist() == pytest.approx([140.0])


def test_an_order_that_is_taken_back_leaves_what_the_contract_says(tmp_path):
    world, process = World(), AgentProcess(tmp_path, "n2")
    for revision, orders, deadline_s in ((1, {"deadline_s": 2.0}, 2.0), (2, {"lead_s": 0.1}, 1.0), (3, {"deadline_s": 0.1}, 1.0)):
        process._obey(world.agent, AssignedAgent(job=1, task="racks/0", revision=revision, orders=orders))
        assert world.agent.view()["deadline_s"] == deadline_s
    assert "the deadline of 0.1 s is below the epoch length of 1 s" in process._refused
    process._history.close()


def test_a_stream_whose_contract_says_no_keys_is_one_series():
    world = World(keys=("server",))
    world.contract = world.contract.model_copy(update={"predicting": Predicting(keys=())})
    world.agent = world.new_agent()
    world.run(range(1, 13))
    world.run([13], makes=False)
    assert (world.agent.error, world.first(13)) == (None, "predicted")


def test_what_counts_as_accurate_is_the_contract_s_and_can_be_changed_while_it_runs():
    world = World(measure="mae")
    world.run(range(1, 13))
    stand_in = world.agent.streams[0].stand_in
    assert {rank.measure for rank in stand_in.ranks} == {"mae"}
    world.agent.change(check_orders({"measure": "rmse"}, world.contract, epoch_s=1.0).applied_to(world.contract))
    assert {rank.measure for rank in stand_in.ranks} == {"rmse"}
    assert world.agent.view()["streams"]["racks"]["measure"] == "rmse"
    with pytest.raises(HoldfastError, match="measure wants one of within, mae, rmse, mse, got 'luck'"):
        check_orders({"measure": "luck"}, world.contract, epoch_s=1.0)


def test_everything_wrong_with_a_contract_of_prediction_is_told_when_the_job_is_laid_out():
    contract = Contract(
        protection="prediction",
        deadline_s=0.5,
        predicting=Predicting(
            depth=1,
            algorithms={"oracle": {}, "last-outcome": {"name": "first"}, "nearest-neighbours": {"k": 60}},
            most_epochs=0,
        ),
    )
    job = Job(job="j", application="app.py", log="x", contract=contract)
    with pytest.raises(CompoundError) as found:
        check_protection(job, [TASK], epoch_s=1.0)
    text = str(found.value)
    for part in (
        "PE 'racks': the deadline of 0.5 s is below the epoch length of 1 s",
        "PE 'racks': most_epochs wants a whole number of at least 1, got 0",
        "PE 'racks': depth wants a whole number of at least 2, got 1",
        "PE 'racks': predictor 'oracle' is not installed",
        "PE 'racks': predictor 'last-outcome' calls itself 'first'; the two must be the same",
        "PE 'racks': predictor 'nearest-neighbours' needs 62 values of a series before it says anything, and depth lets 1 be kept",
    ):
        assert part in text


def test_what_is_wrong_for_several_pes_is_told_once():
    contract = Contract(protection="prediction", deadline_s=0.5)
    job = Job(job="j", application="app.py", log="x", contract=contract)
    with pytest.raises(CompoundError) as found:
        check_protection(job, [TASK, Task(pe="heat", reads=(Reading(stream="racks"),), makes=("heat",))], epoch_s=1.0)
    (error,) = found.value.errors
    assert error.startswith("PEs 'heat', 'racks': the deadline of 0.5 s is below the epoch length of 1 s")


def test_the_deadline_of_a_job_that_another_feeds_is_not_held_against_a_length_that_only_that_one_knows():
    contract = Contract(protection="prediction", deadline_s=2.0, predicting=Predicting(depth=1))
    job = Job(job="j", application="app.py", log="x", contract=contract)
    fed = TASK.model_copy(update={"reads": (Reading(stream="src", job="feed"),)})
    with pytest.raises(CompoundError) as found:
        check_protection(job, [fed], epoch_s=5.0)
    assert list(found.value.errors) == ["PE 'racks': depth wants a whole number of at least 2, got 1"]


@pytest.mark.parametrize("protection", ["upstream", "prediction"])
def test_a_protection_that_a_source_or_sink_cannot_have_is_told(protection):
    racks = TASK.model_copy(update={"replicas": 2})
    tasks = [Task(pe="src", kind="source", makes=("src",)), racks, Task(pe="out", kind="sink")]
    contract = Contract(protection=protection, deadline_s=2.0)
    check_protection(Job(job="j", application="app.py", log="x", contract=contract), tasks, epoch_s=1.0)
    job = Job(job="j", application="app.py", log="x", contracts={"src": contract, "out": contract, "racks": contract})
    with pytest.raises(CompoundError) as found:
        check_protection(job, tasks, epoch_s=1.0)
    assert list(found.value.errors) == [
        f"'out' is a sink, and its contract says protection: {protection}; only operators have it",
        f"'src' is a source, and its contract says protection: {protection}; only operators have it",
    ]


def test_prediction_without_a_deadline_is_a_mistake_of_the_job():
    job = {"job": "j", "application": "app.py", "log": "x", "contract": {"protection": "prediction"}}
    with pytest.raises(DocumentError, match=r"job: contract\.deadline_s: is missing; prediction needs the seconds after its last"):
        check_document(job, Job, thing="job")
