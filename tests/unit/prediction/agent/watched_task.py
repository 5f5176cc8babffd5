"""A task that commits on command, its prediction agent, and the time."""

from concurrent.futures import Executor, Future

import numpy as np
import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Predicting, Reading, Task
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.prediction.agent.prediction_agent import PredictionAgent
from holdfast.runtime.machine_time import MachineTime
from holdfast.runtime.output_writer import OutputWriter

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)


TASK = Task(pe="racks", reads=(Reading(stream="src"),), makes=("racks",))


RACKS = ("r1", "r2", "r3")


class SameThread(Executor):
    """An executor that runs calls at once in the caller's thread, so that tests are repeatable."""

    def submit(self, call, /, *args, **named):
        future = Future()
        future.set_result(call(*args, **named))
        return future


class WatchedTask:
    """A task that commits on command, its agent, and the time."""

    def __init__(self, *, keys=("rack",), **terms):
        self.store, self.now_s, self.events = Store(MemoryStore()), 0.0, []
        self.log = EpochLog(self.store)
        self.contract = Contract(protection="prediction", deadline_s=1.0, predicting=Predicting(**terms))
        self.keys, self.clock_error_s, self.agent_clock_error_s = keys, 0.0, 0.0
        self.agent = self.new_agent()

    def new_agent(self):
        tell = lambda kind, about: self.events.append((kind, about))  # noqa: E731
        outbox = OutputWriter(self.store, 0, "agent of racks/0 on n2", TIMELINE, tell, time=MachineTime(wall_s=lambda: self.now_s))
        return PredictionAgent(
            TASK,
            self.contract,
            keys={"racks": self.keys},
            outbox=outbox,
            stores=[self.store],
            trainer=SameThread(),
            clock=lambda: self.now_s,
            wall_clock=lambda: self.now_s + self.agent_clock_error_s,
            timer=lambda: self.now_s,  # no time passes, however busy the machine is
        )

    def commit(self, stream, epoch, rows, quality=Quality.EXACT):
        time = MachineTime(wall_s=lambda: self.now_s + self.clock_error_s)
        box = OutputWriter(self.store, 0, f"{stream}/0.0 on n1", TIMELINE, lambda *_: None, time=time)
        box.publish(stream, epoch, rows=rows, quality=quality)

    def commit_input(self, epoch):
        self.commit("src", epoch, pa.table({"seq": np.arange(100 * epoch + 1, 100 * epoch + 101)}))

    def commit_output(self, epoch, quality=Quality.EXACT):
        seq = [100 * epoch + 30 * (n + 1) for n in range(3)]
        self.commit("racks", epoch, pa.table({"seq": seq, "epoch": [epoch] * 3, "rack": RACKS, "cpu": [10.0, 20.0, 30.0]}), quality)

    def run(self, epochs, *, commits=True):
        """Let epochs pass. With `commits`, the task commits each 0.2 s after its input."""
        for epoch in epochs:
            self.now_s = TIMELINE.closes_s(epoch)
            self.commit_input(epoch)
            self.agent.step()
            self.now_s += 0.2
            if commits:
                self.commit_output(epoch)
            self.agent.step()
            self.now_s += 0.75
            self.agent.step()

    def first_quality(self, epoch):
        record = self.log.first("racks", 0, epoch=epoch)
        return None if record is None else record.quality.value


class EchoingTask(WatchedTask):
    """A task whose output equals its random input."""

    def commit_input(self, epoch, quality=Quality.EXACT):
        self.commit("src", epoch, self.rows(epoch), quality)

    def commit_output(self, epoch, quality=Quality.EXACT):
        self.commit("racks", epoch, self.rows(epoch), quality)

    @staticmethod
    def rows(epoch):
        cpu = np.random.default_rng(epoch).uniform(1.0, 99.0, 3)
        return pa.table({"seq": [100 * epoch + n for n in range(3)], "epoch": [epoch] * 3, "rack": RACKS, "cpu": cpu})

    def predicted(self, epoch):
        record = self.log.first("racks", 0, epoch=epoch)
        assert record.quality is Quality.PREDICTED
        return read_rows(self.store, record.files[0])["cpu"].to_pylist()


def step_until(task, until_s):
    """Call the agent as often as it asks for, until then."""
    while task.now_s < until_s:
        task.now_s = min(until_s, task.now_s + task.agent.step())
