"""The laws: what must hold during and after every schedule. Each violation names its law.

The observer of a schedule (`Watch`) sees every change of every log. It keeps each record and its rows, so that trimming hides
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.control.observers.absent_epochs import PRODUCER
from holdfast.documents.job import Task
from holdfast.log import Quality, Record
from holdfast.log.fences import decode_fence
from holdfast.log.output_files import FILE_NAME
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import EPOCHS_KEPT_FOR_AGENTS

from .node import HUNG_S
from .rows import Row, to_rows
from .scheduler import START_S
from .sim_ranges import TABLE
from .targets import FencedTarget
from .workload import EPOCHS, FIRST, golden

if TYPE_CHECKING:
    from .seams import Codec
    from .world import JobModel, World

NOTICED_S = 6.0
"""After this time the orchestrator has noticed that a task is dead, and has stored when."""
WORK_S = 20.0
"""How long a replica that can work may take at most for an epoch whose inputs are there, with the epochs before it."""
SLACK_S = 14.0
"""How much later than its contract says an absent epoch may be committed: the time to notice a dead node or PE host, to send beats,
and the delays that the scheduler adds to operations."""


@dataclass(frozen=True)
class Violation:
    """A broken law."""

    law: str
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.text}"


RecordKey = tuple[str, int, int, str]


class Watch:
    """Sees all changes of the logs of one schedule."""

    def __init__(self, world: World, codec: Codec) -> None:
        self.world, self._codec = world, codec
        self.violations: list[Violation] = []
        self.records: dict[str, dict[RecordKey, Record]] = {}
        self.first_s: dict[tuple[str, str, int, int], float] = {}
        self.outputs: dict[str, dict[int, tuple[str, tuple[Row, ...]]]] = {}
        self._first_qualities: dict[tuple[str, str, int], str] = {}
        self._files: dict[tuple[str, str], bytes] = {}
        self._fences: dict[tuple[str, str, int], list[int]] = {}
        self._removed_until: dict[tuple[str, str, int], int] = {}
        self._heads: dict[tuple[str, str, int], int] = {}
        self._users_of: dict[tuple[str, str, int], list[tuple[str, str, bool]]] = {}
        self._down_since_s: dict[tuple[int, str], float] = {}
        self._workers: dict[tuple[int, str], tuple[object, float]] = {}
        self._ready_since_s = world.scheduler.now_s
        world.on_change.append(self._on_change)
        world.on_loss.append(self._on_loss)
        world.scheduler.call_at(world.scheduler.now_s + 1.0, self._check_time_limits)

    def report(self, law: str, text: str) -> None:
        self.violations.append(Violation(law, f"{text} (at {self.world.scheduler.now_s - START_S:.1f} s)"))

    def rows_of(self, location: str, record: Record) -> tuple[Row, ...]:
        """Return the rows of a record, in order."""
        tables = (self._codec.decode(self._files[location, file]) for file in record.files)
        return tuple(sorted(row for table in tables for row in to_rows(table)))

    def _on_change(self, location: str, name: str, old: bytes | None, new: bytes | None) -> None:
        kind = name.partition("/")[0]
        if location.endswith("/out"):
            self._on_output(location, name, old, new)
        elif kind == "data" and new is not None:
            self._files[location, name] = new
        elif kind == "records":
            _, stream, task, last = name.split("/")
            epoch, which, *section = last.split(".")
            key = unquote(stream), int(task), int(epoch), which
            fences = self._fences.setdefault((location, *key[:2]), [])
            if new is not None and decode_fence(new) is not None:
                fences.append(key[2])
            elif int(section[0] if section else 0) != sum(fence <= key[2] for fence in fences):
                pass  # a canceled job has written it, and nobody reads it
            elif new is not None:
                self._on_record(location, key, Record.decode(new))
            elif old is not None:
                self._on_record_removed(location, key)
        elif name == "timeline" and new is not None:
            self._on_timeline(location, Timeline(**json.loads(new)))

    def _on_loss(self, location: str, name: str) -> None:
        """Forget an object that a power loss has undone. Check that nobody had reported it as committed."""
        if name.startswith("records/"):
            _, stream, task, last = name.split("/")
            epoch, which, *_ = last.split(".")
            self.records[location].pop((unquote(stream), int(task), int(epoch), which), None)
            about = {"stream": unquote(stream), "task": int(task), "epoch": int(epoch), "as": which}
            job = next(number for number, model in self.world.jobs.items() if model.job.log == location)
            if any(kind == "commit" and {"job": job, **about}.items() <= data.items() for _, kind, data in self.world.history):
                self.report("power loss", f"{about} was reported as committed and is lost")

    def _on_record(self, location: str, key: RecordKey, record: Record) -> None:
        records = self.records.setdefault(location, {})
        previous = records.get(key)
        if self._trimmed_until(location, key) >= key[2]:
            return  # its producer is about to withdraw it, or everybody who reads it is past it
        if previous is not None and previous.checksum != record.checksum and previous.quality is record.quality is Quality.EXACT:
            self.report("final output", f"{key} was committed twice with different rows")
        if record.producer == PRODUCER and not self._has_inputs(location, key):
            self.report("time limit", f"{key} was committed as absent before its inputs were there")
        records.setdefault(key, record)
        self.first_s.setdefault((location, *key[:3]), self.world.scheduler.now_s)

    def _has_inputs(self, location: str, key: RecordKey) -> bool:
        """Return whether the inputs of an epoch have been committed."""
        model = next(each for each in self.world.jobs.values() if each.job.log == location)
        (task,) = (task for task in model.layout.tasks if key[0] in task.makes and task.task == key[1])
        logs = ((location if r.job is None else self.world.log_of(r.job), r) for r in task.reads)
        return all((log, r.stream, number, key[2]) in self.first_s for log, r in logs for number in r.tasks)

    def _on_record_removed(self, location: str, key: RecordKey) -> None:
        """Check that nobody needs the epoch any more, unless the record's producer withdraws it."""
        stream, number, epoch, _ = key
        folders = self.world.locations[location]
        removed = location, stream, number
        self._removed_until[removed] = max(epoch, self._removed_until.get(removed, -1))
        if self._trimmed_until(location, key) < epoch:
            self.report("trimming", f"{stream}/{number} epoch {epoch} was removed before this was announced")
        for name, folder, has_agent in self._users(location, stream, number):
            saved = max((int(each.rpartition("/")[2]) for each in folders.get(folder, ())), default=-1)
            if saved < epoch:
                self.report("trimming", f"{stream}/{number} epoch {epoch} was removed, and {name} needs it")
            if has_agent and saved < epoch + EPOCHS_KEPT_FOR_AGENTS:
                self.report("trimming", f"{stream}/{number} epoch {epoch} was removed, and the agent of {name} needs it")
        for name, position in folders.get(f"readers/{stream}/{number}", {}).items():
            if int(position) < epoch and self._begins_before(name.rpartition("/")[2].partition(":")[0], epoch):
                self.report("trimming", f"{stream}/{number} epoch {epoch} was removed, and {name} needs it")

    def _begins_before(self, job: str, epoch: int) -> bool:
        """Return whether a job reads an epoch of another job. One that has no timeline yet will begin past the announced epochs."""
        model = next(each for each in self.world.jobs.values() if each.job.job == job)
        timeline = self.timeline_of(str(model.job.log))
        return timeline is not None and timeline.first <= epoch

    def _on_timeline(self, location: str, timeline: Timeline) -> None:
        """Check that all epochs that a job is going to read of another job are there."""
        model = next(each for each in self.world.jobs.values() if each.job.log == location)
        for reading in (reading for task in model.layout.tasks for reading in task.reads if reading.job is not None):
            for number in reading.tasks:
                removed = self._removed_until.get((self.world.log_of(reading.job or ""), reading.stream, number), -1)
                if removed >= timeline.first:
                    self.report("trimming", f"{model.job.job} begins at {reading.stream} epoch {timeline.first}, which was removed")

    def _users(self, location: str, stream: str, number: int) -> list[tuple[str, str, bool]]:
        """Return the tasks that produce or read a stream: their names, the folders of their checkpoints, and whether an agent
        watches them."""
        users = self._users_of.get((location, stream, number))
        if users is None:
            model = next(each for each in self.world.jobs.values() if each.job.log == location)
            users = self._users_of[location, stream, number] = [
                (task.name, f"checkpoints/{task.name.replace('/', '%2F')}", model.job.has_agent(task))
                for task in model.layout.tasks
                if any(r.job is None and r.stream == stream and number in r.tasks for r in task.reads)
                or (stream in task.makes and task.task == number)
            ]
        return users

    def _trimmed_until(self, location: str, key: RecordKey) -> int:
        lines = self.world.locations[location].get(f"trimmed/{key[0]}/{key[1]}", ())
        return max((int(name.rpartition("/")[2]) for name in lines), default=-1)

    def _on_output(self, location: str, name: str, old: bytes | None, new: bytes | None) -> None:
        sink, _, file = name.partition("/")
        match = FILE_NAME.fullmatch(file)
        if match is None or new is None:
            return
        epoch, epochs = int(match[2]), self.outputs.setdefault(f"{location}/{sink}", {})
        if match[1] == "_first":
            self._first_qualities[location, sink, epoch] = match[3]
        elif match[1] == "_corrected":
            epochs[epoch] = "exact", epochs[epoch][1]
        else:
            quality = epochs[epoch][0] if old is not None else self._first_qualities.get((location, sink, epoch), "exact")
            rows = tuple(sorted(to_rows(self._codec.decode(new))))
            if old is not None and quality == "exact" and rows != epochs[epoch][1]:
                self.report("no epoch twice", f"the exact file {name} was replaced by another")
            epochs[epoch] = quality, rows

    # Time limits.

    def _check_time_limits(self) -> None:
        """Check that dead tasks are continued without in time. The time counts only while the orchestrator can act."""
        world, now_s = self.world, self.world.scheduler.now_s
        world.scheduler.call_at(now_s + 1.0, self._check_time_limits)
        for model in world.jobs.values():
            for task in model.layout.tasks if model.placed else ():
                if task.makes and task.reads:
                    self._check_worker(model, task, now_s)
        orchestrator, machine = world.orchestrator, world.orchestrator_machine
        acts = orchestrator is not None and orchestrator.answers and not orchestrator.recovering
        if not acts or max(machine.cut_until_s, machine.full_until_s) > now_s:
            self._ready_since_s = now_s  # and it has not noticed what died only just now
            self._down_since_s = {task: since_s for task, since_s in self._down_since_s.items() if now_s - since_s > NOTICED_S}
            return
        for model in world.jobs.values():
            for task in model.layout.tasks if model.placed else ():
                wait_s = model.job.contract_of(task.pe).tentative_after_s
                if wait_s is not None and task.makes:
                    self._check_task(model, task, wait_s, now_s)

    def _check_worker(self, model: JobModel, task: Task, now_s: float) -> None:
        """Check that a replica which is not disturbed by any fault processes the first records of its inputs."""
        workers = [
            loop
            for node in self.world.nodes
            if node.host is not None and node.host.can_work
            for key, loop in node.host.loops.items()
            if key.startswith(f"{model.number}:{task.name}.") and loop.state == "running" and loop.assigned.active
            if loop._stalled_until_s < now_s
        ]
        worker, since_s = self._workers.get((model.number, task.name), (None, 0.0))
        if worker not in workers:
            self._workers[model.number, task.name] = (workers[0] if workers else None), now_s
        elif now_s - since_s > WORK_S:
            for stream in task.makes:
                late = self._next_ready(model, task, stream)
                if late is not None and now_s - max(late[1], since_s) > WORK_S:
                    text = (
                        f"epoch {late[0]} of {stream}/{task.task} has its inputs since {now_s - late[1]:.1f} s, and a replica works"
                    )
                    self.report("time limit", text)
                    self._workers[model.number, task.name] = None, now_s

    def _next_ready(self, model: JobModel, task: Task, stream: str) -> tuple[int, float] | None:
        """Return the next epoch of a stream, and when its inputs were there; None if they are not."""
        location = str(model.job.log)
        timeline = self.timeline_of(location)
        if timeline is None:
            return None
        epoch = self._heads.get((location, stream, task.task), timeline.first)
        while (location, stream, task.task, epoch) in self.first_s:
            epoch += 1
        self._heads[location, stream, task.task] = epoch
        ready_s = self._ready_s(model, task, epoch, timeline)
        return None if ready_s is None or (timeline.last is not None and epoch > timeline.last) else (epoch, ready_s)

    def _check_task(self, model: JobModel, task: Task, wait_s: float, now_s: float) -> None:
        alive = any(
            key.startswith(f"{model.number}:{task.name}.") and loop.state not in ("failed",)
            for node in self.world.nodes
            if node.host is not None and node.host.process.alive
            for key, loop in node.host.loops.items()
        )
        if alive:
            self._down_since_s.pop((model.number, task.name), None)
            return
        down_since_s = self._down_since_s.setdefault((model.number, task.name), now_s)
        location = str(model.job.log)
        timeline = self.timeline_of(location)
        if timeline is None or timeline.last is None:
            return
        for stream in task.makes:
            late = self._next_ready(model, task, stream)
            if late is None:
                continue
            epoch, ready_s = late
            late_s = min(now_s - max(ready_s, down_since_s) - wait_s, now_s - self._ready_since_s)
            slack_s = SLACK_S if self._has_started(model, task) else SLACK_S + HUNG_S
            if late_s > slack_s:
                self.report("time limit", f"epoch {epoch} of {stream}/{task.task} is {late_s:.1f} s late, and the task is dead")
                self._down_since_s[model.number, task.name] = now_s + 1_000

    def _has_started(self, model: JobModel, task: Task) -> bool:
        """Return whether a task ever began. One whose PE host hangs before that counts as dead only when the host is killed."""
        return any(key.startswith(f"{model.number}:{task.name}.") for key, _ in self.world.starts)

    def _ready_s(self, model: JobModel, task: Task, epoch: int, timeline: Timeline) -> float | None:
        """Return when the inputs of an epoch were there; None if they are not."""
        if not task.reads:
            return timeline.closes_s(epoch) - self.world.orchestrator_machine.offset_s
        times = [
            self.first_s.get((str(model.job.log) if r.job is None else self.world.log_of(r.job), r.stream, number, epoch))
            for r in task.reads
            for number in r.tasks
        ]
        return None if None in times else max(each for each in times if each is not None)

    def timeline_of(self, location: str) -> Timeline | None:
        """Return the timeline in a log."""
        content = self.world.locations.get(location, {}).get("", {}).get("timeline")
        return Timeline(**json.loads(content)) if content is not None else None

    # After the schedule.

    def check_job(self, model: JobModel) -> None:
        """Check what must hold once everything is at rest."""
        location = str(model.job.log)
        timeline, records = self.timeline_of(location), self.records.get(location, {})
        if timeline is None:
            self.report("rest", f"job {model.job.job} has not begun")
            return
        last = timeline.last if timeline.last is not None else self.last_epoch_with_rows(model)
        truth = self._truth(model, timeline)
        if truth is None:
            return
        for key, record in sorted(records.items()):
            stream, number, epoch, _ = key
            if record.quality is Quality.EXACT and epoch <= last and stream in self._streams_of(model):
                rows, expected = self.rows_of(location, record), truth[stream, number].get(epoch, ())
                if rows != expected:
                    self.report("final output", f"{key} by {record.producer} has {_difference(rows, expected)}")
        for task in model.layout.tasks:
            if not model.job.contract_of(task.pe).correction:
                continue
            for stream in task.makes:
                for epoch in range(timeline.first, last + 1):
                    if self.final_of(location, stream, task.task, epoch) is None:
                        self.report("correction", f"epoch {epoch} of {stream}/{task.task} has no final record")
            if task.kind == "sink":
                self._check_sink(model, task, timeline.first, last, truth)

    def _check_sink(
        self, model: JobModel, task: Task, first: int, last: int, truth: dict[tuple[str, int], dict[int, tuple[Row, ...]]]
    ) -> None:
        (reading,) = task.reads
        name = reading.name or reading.stream
        writer = model.load.graph.nodes[task.pe].writer  # type: ignore[union-attr]
        overtaken = {
            h[2]["epoch"]
            for h in self.world.history
            if h[1] == "overtaken" and h[2]["sink"] == task.pe and self.world.jobs[h[2]["job"]].job.log == model.job.log
        }
        for epoch in range(first, last + 1):
            expected = tuple(sorted(row for number in reading.tasks for row in truth[name, number].get(epoch, ())))
            if writer is None:
                quality, rows = self.outputs.get(f"{model.job.log}/out/{task.pe}", {}).get(epoch, ("missing", ()))
            else:
                target = model.target(task.pe)
                quality, rows = "exact", target.epochs.get(epoch, ((-1, -1, -1, -1),))
                if isinstance(target, FencedTarget) and max(target.writes[epoch, kind] for kind in ("first", "final")) > 1:
                    self.report("no epoch twice", f"epoch {epoch} of sink {task.pe} was written twice")
            if rows != expected and not (writer is not None and epoch in overtaken):
                self.report("sinks", f"epoch {epoch} of sink {task.pe} is {quality} and has {_difference(rows, expected)}")
            elif quality != "exact" and epoch not in overtaken:
                self.report("correction", f"epoch {epoch} of sink {task.pe} is {quality}")

    def check_history(self) -> None:
        """Check what must hold for what was reported."""
        counts: Counter[tuple[object, ...]] = Counter()
        ended: set[tuple[str, int]] = set()
        for _, kind, about in self.world.history:
            if kind == "output":
                counts["sink", about["job"], about["sink"], about["epoch"], about["as"]] += 1
            elif kind == "commit":
                counts["stream", about["job"], about["stream"], about["task"], about["epoch"], about["as"]] += 1
            elif kind in ("divergence", "abandoned", "job failed"):
                self.report(kind, str(about))
            elif kind in ("ended", "failed by observer"):
                ended.add((about["replica"], about["incarnation"]))
            elif kind == "replica" and about["state"] == "failed" and (about["replica"], about["incarnation"]) not in ended:
                self.report("one start", f"{about} counts as failed, although no node has reported this incarnation as failed")
            elif kind in ("replica failed", "observer failed") and not _is_injected(str(about["error"])):
                self.report("unexpected error", str(about))
        for key, count in counts.items():
            if count > 1:
                self.report("no epoch twice", f"{key} was delivered {count} times")
        for (replica, incarnation), count in self.world.starts.items():
            if count > 1:
                self.report("one start", f"incarnation {incarnation} of {replica} was started {count} times")

    def final_of(self, location: str, stream: str, task: int, epoch: int) -> Record | None:
        """Return the final record of an epoch, also if it is trimmed."""
        records = self.records.get(location, {})
        first = records.get((stream, task, epoch, "first"))
        return first if first is not None and first.quality is Quality.EXACT else records.get((stream, task, epoch, "final"))

    def last_epoch_with_rows(self, model: JobModel) -> int:
        """Return the last epoch in which a source with a reader has committed rows."""
        records = self.records.get(str(model.job.log), {})
        sources = {task.pe for task in model.layout.tasks if task.kind == "source"}
        return max((key[2] for key, record in records.items() if key[0] in sources and record.rows), default=0)

    def has_all_rows(self, model: JobModel) -> bool:
        """Return whether the sources with readers have committed as many rows as there are."""
        records = self.records.get(str(model.job.log), {})
        for task in model.layout.tasks:
            if task.kind == "source":
                count = sum(record.rows for key, record in records.items() if key[0] == task.pe and record.quality is Quality.EXACT)
                if count < len(self._rows_to_read(model, task.pe)):
                    return False
        return True

    def _rows_to_read(self, model: JobModel, source: str) -> tuple[Row, ...]:
        """Return the rows of a live source: all, or those past the position at which its tasks have agreed to begin."""
        content = self.world.locations[str(model.job.log)].get("range_starts", {}).get(f"range_starts/{source}")
        return model.load.trace[source][json.loads(content)[TABLE] if content is not None else 0 :]

    def is_complete(self, model: JobModel) -> bool:
        """Return whether every sink has a final output for every epoch up to the last one with rows."""
        location = str(model.job.log)
        timeline = self.timeline_of(location)
        if timeline is None:
            return False
        last = timeline.last if timeline.last is not None else self.last_epoch_with_rows(model)
        for task in model.layout.tasks:
            saved = self.world.locations[location].get(f"checkpoints/{task.name.replace('/', '%2F')}", ())
            epochs = [int(name.rsplit("/", 1)[1]) for name in saved]
            if task.kind == "sink" and max(epochs, default=-1) < last:
                return False
        return True

    def _streams_of(self, model: JobModel) -> set[str]:
        return {stream for task in model.layout.tasks for stream in task.makes}

    def _truth(self, model: JobModel, timeline: Timeline) -> dict[tuple[str, int], dict[int, tuple[Row, ...]]] | None:
        """Return the rows of every stream without faults. For readers it depends on the epochs of the sources' final records."""
        sources: dict[tuple[str, int], tuple[Row, ...]] = {}
        location = str(model.job.log)
        if model.load.feed == "trace":
            from .workload import _share

            for task in model.layout.tasks:
                if task.kind == "source":
                    of = model.load.graph.nodes[task.pe].parallelism  # type: ignore[union-attr]
                    sources[task.pe, task.task] = _share(model.load, task.pe, task.task, of)
            return golden(model.load, sources)
        if model.job.streams:
            return self._truth_of_reader_job(model, timeline)
        committed: dict[str, list[tuple[int, int]]] = {}
        for task in model.layout.tasks:
            if task.kind != "source":
                continue
            rows: list[Row] = []
            for epoch in range(timeline.first, self.last_epoch_with_rows(model) + 1):
                record = self.final_of(location, task.pe, task.task, epoch)
                if record is None and not model.job.contract.correction:
                    continue  # all rows are in other epochs, and nobody waits for this one
                if record is None:
                    self.report("correction", f"epoch {epoch} of source {task.name} has no final record")
                    return None
                rows += self.rows_of(location, record)
            sources[task.pe, task.task] = tuple(rows)
            committed.setdefault(task.pe, []).extend((row[1], row[2]) for row in rows)
        for source, pairs in committed.items():
            expected = Counter((row[1], row[2]) for row in self._rows_to_read(model, source))
            if Counter(pairs) != expected:
                lost, extra = expected - Counter(pairs), Counter(pairs) - expected
                self.report(
                    "final output", f"source {source} lost {sorted(lost.elements())} and repeated {sorted(extra.elements())}"
                )
        return golden(model.load, sources)

    def _truth_of_reader_job(self, model: JobModel, timeline: Timeline) -> dict[tuple[str, int], dict[int, tuple[Row, ...]]]:
        """Return the rows of a job that reads another job's stream, from where it joined."""
        (named,) = model.job.streams.values()
        other, stream = named.split(":")
        feeding = next(each for each in self.world.jobs.values() if each.job.job == other)
        whole = self._truth(feeding, timeline) or {}
        rows = [
            row
            for (name, _), epochs in whole.items()
            if name == stream
            for epoch, content in epochs.items()
            if epoch >= timeline.first
            for row in content
        ]
        return golden(model.load, {("s0", 0): tuple(sorted(rows))})


def _is_injected(error: str) -> bool:
    return "(simulated)" in error or error == "killed by a fault" or error.startswith("this job was canceled")


def _difference(rows: tuple[Row, ...], expected: tuple[Row, ...]) -> str:
    missing, extra = sorted(set(expected) - set(rows)), sorted(set(rows) - set(expected))
    return f"{len(rows)} rows instead of {len(expected)}: lacks {missing[:2]}, has {extra[:2]} in excess"


__all__ = ["EPOCHS", "FIRST", "Violation", "Watch"]
