"""Trimming: what is kept for consumers, readers in other jobs and prediction agents."""

import pytest

from holdfast.documents.job import Job, Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.log_owner import require_inputs_of_all_tasks
from holdfast.log.position import Position
from holdfast.log.shared_streams import SharedInput, join_timelines
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.log.trimming import EPOCHS_KEPT_FOR_AGENTS, LogTrimmer, remove_ended_readers, save_reader_position

PRODUCER = Task(pe="vwap", makes=("vwap",))
READER = Task(pe="alarm", reads=(Reading(stream="vwap", name="averages", job="market"),), makes=("alarm",))


MARKET = Job(job="market", application="app.py", log="log")


def store(tmp_path, name):
    return Store(str(tmp_path / name))


def record(epoch):
    return Record("vwap", 0, epoch, Quality.EXACT, (), 0, None, None, "none", "test")


def log_with_epochs(tmp_path, epochs):
    """Return the store of a job that has started at epoch 10, and whose stream has these epochs."""
    log_store = store(tmp_path, "market")
    agree_on_timeline(log_store, Timeline(10, None, 1.0, opened_s=100.0))
    for epoch in epochs:
        EpochLog(log_store).offer(record(epoch))
    return log_store


def test_epochs_unread_by_another_job_are_kept(tmp_path):
    market, own = log_with_epochs(tmp_path, range(10, 20)), store(tmp_path, "own")
    log = EpochLog(market)
    join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    checkpoints = Checkpoints(market)
    checkpoints.save(PRODUCER.name, Position(19))
    LogTrimmer(market, [PRODUCER], checkpoints).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == 10
    remove_ended_readers(market, {"market"})
    LogTrimmer(market, [PRODUCER], checkpoints).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) != 10


@pytest.mark.parametrize(("watched", "oldest"), [((), 41), ((PRODUCER,), 41 - EPOCHS_KEPT_FOR_AGENTS)])
def test_some_epochs_are_kept_for_prediction_agents(tmp_path, watched, oldest):
    market = log_with_epochs(tmp_path, range(10, 42))
    log, checkpoints = EpochLog(market), Checkpoints(market)
    checkpoints.save(PRODUCER.name, Position(40))
    LogTrimmer(market, [PRODUCER], checkpoints, watched=watched).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == oldest


def test_remaining_tasks_of_an_ended_job_are_trimmed_for_their_readers(tmp_path):
    market = log_with_epochs(tmp_path, range(10, 20))
    log, checkpoints = EpochLog(market), Checkpoints(market)
    join_timelines(store(tmp_path, "own"), "alarms", [SharedInput(READER, READER.reads[0], market)])
    save_reader_position(market, "alarms:alarm~0", stream="vwap", task=0, epoch=15)
    sink = Task(pe="out", kind="sink", reads=(Reading(stream="vwap"),))
    trimmer = LogTrimmer(market, [PRODUCER, sink], checkpoints)
    checkpoints.save(PRODUCER.name, Position(19))
    checkpoints.save(sink.name, Position(11))
    trimmer.trim_around(PRODUCER)
    assert log.oldest_epoch("vwap", 0) == 10  # its consumer in the job trims it
    trimmer.remaining_tasks = frozenset({PRODUCER.name})
    require_inputs_of_all_tasks(market, MARKET)
    trimmer.trim_around(PRODUCER)
    assert log.oldest_epoch("vwap", 0) == 16
    with pytest.raises(
        HoldfastError, match=r"was continued by vwap/0 alone, for jobs that shared them: .* give it a log of its own"
    ):
        require_inputs_of_all_tasks(market, MARKET)


def test_positions_of_living_readers_stay(tmp_path):
    market = log_with_epochs(tmp_path, ())
    join_timelines(store(tmp_path, "own"), "alarms", [SharedInput(READER, READER.reads[0], market)])
    remove_ended_readers(market, {"alarms"})
    assert list(market.names("readers/"))


class InterruptedStore(Store):
    """A store that runs `interrupt` once, before its operation number `at`."""

    def __init__(self, root, at, interrupt):
        super().__init__(root)
        self._at, self._interrupt, self._operations = at, interrupt, 0

    def _count(self):
        self._operations += 1
        if self._operations == self._at:
            self._interrupt()

    def create(self, name, content):
        self._count()
        return super().create(name, content)

    def replace(self, name, content):
        self._count()
        super().replace(name, content)

    def read(self, name):
        self._count()
        return super().read(name)

    def remove(self, names):
        self._count()
        super().remove(names)

    def names(self, prefix):
        self._count()
        return iter(list(super().names(prefix)))


def join(market, own):
    return join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])


def trim_up_to(market, epoch):
    checkpoints = Checkpoints(market)
    checkpoints.save(PRODUCER.name, Position(epoch))
    LogTrimmer(market, [PRODUCER], checkpoints).trim("vwap", 0)


def require_all_epochs(market, first):
    log = EpochLog(market)
    assert [epoch for epoch in range(first, 20) if log.first("vwap", 0, epoch=epoch) is None] == []


@pytest.mark.parametrize("at", range(1, 30))
def test_joining_job_finds_its_first_epoch_despite_trimming(tmp_path, at):
    market, own = log_with_epochs(tmp_path, range(10, 20)), store(tmp_path, "own")
    interrupted = InterruptedStore(str(tmp_path / "market"), at, lambda: join(market, own))
    trim_up_to(interrupted, 15)
    require_all_epochs(market, join(market, own).first)


@pytest.mark.parametrize("at", range(1, 12))
def test_trimming_keeps_the_first_epoch_of_a_joining_job(tmp_path, at):
    market, own = log_with_epochs(tmp_path, range(10, 20)), store(tmp_path, "own")
    trim_up_to(market, 12)
    interrupted = InterruptedStore(str(tmp_path / "market"), at, lambda: trim_up_to(market, 15))
    require_all_epochs(market, join(interrupted, own).first)


@pytest.mark.parametrize("join_at", range(1, 8))
@pytest.mark.parametrize("trim_at", range(6, 14))
def test_two_nodes_that_find_different_first_epochs_keep_the_agreed_one(tmp_path, join_at, trim_at):
    market, own = log_with_epochs(tmp_path, range(10, 20)), store(tmp_path, "own")

    def trim_while_another_node_joins():
        trim_up_to(InterruptedStore(str(tmp_path / "market"), trim_at, lambda: join(market, own)), 15)

    timeline = join(InterruptedStore(str(tmp_path / "market"), join_at, trim_while_another_node_joins), own)
    trim_up_to(market, 18)
    require_all_epochs(market, timeline.first)


@pytest.mark.parametrize("others", [(30,), (20, 30, 40)])
@pytest.mark.parametrize("at", range(1, 5))
def test_trim_line_does_not_move_back_if_another_trimmer_passes(tmp_path, at, others):
    market = log_with_epochs(tmp_path, ())
    log, lines = EpochLog(market), []
    log.announce_trim("vwap", 0, until=11)

    def announce_others():
        for until in others:
            log.announce_trim("vwap", 0, until=until)
            lines.append(log.trimmed_until("vwap", 0))

    slow = InterruptedStore(str(tmp_path / "market"), at, announce_others)
    EpochLog(slow).announce_trim("vwap", 0, until=15)
    lines.append(log.trimmed_until("vwap", 0))
    log.announce_trim("vwap", 0, until=50)
    assert lines == (sorted([*others, others[-1]]) if len(lines) > 1 else [15])
    assert log.trimmed_until("vwap", 0) == 50
    assert len(list(market.names("trimmed/"))) <= 2


class CountingStore(Store):
    """Counts how often it lists names."""

    lists = 0

    def names(self, prefix):
        self.lists += 1
        return super().names(prefix)


@pytest.mark.parametrize("tasks", [2, 16])
def test_lists_of_a_checkpoint_do_not_grow_with_the_tasks(tmp_path, tasks):
    market = CountingStore(str(tmp_path))
    checkpoints = Checkpoints(market)
    producers = [Task(pe="a", task=number, makes=("a",)) for number in range(tasks)]
    whole = Reading(stream="a", tasks=tuple(range(tasks)))
    consumers = [Task(pe="b", task=number, reads=(whole,)) for number in range(tasks)]
    trimmer = LogTrimmer(market, [*producers, *consumers], checkpoints)
    for task in [*producers, *consumers[1:]]:
        checkpoints.save(task.name, Position(19))
    trimmer.trim_around(consumers[1])
    checkpoints.save(consumers[0].name, Position(5))
    trimmer._trimmed_until = {("a", number): 5 for number in range(tasks)}
    market.lists = 0
    trimmer.trim_around(consumers[0])  # the others are at epoch 19, and this one has not moved: nothing is trimmed
    assert market.lists == 1
