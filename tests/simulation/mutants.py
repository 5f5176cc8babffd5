"""Mutants: single defects that the laws must detect. Each replaces a piece of the source of one real function.

`python -m tests.simulation.mutants` searches, for each mutant, the first schedule that breaks a law.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import multiprocessing
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from holdfast.connectors import written_epochs
from holdfast.control.nodes import replicas
from holdfast.control.observers import absent_epochs, activation, hung_replicas, outages, upstream_backup
from holdfast.control.recovery import restart_decision
from holdfast.log import checkpoints, epoch_log, fences, local_folder, range_claims, shared_streams, stream_progress, trimming
from holdfast.node import replica_changes
from holdfast.runtime import input_reader, output_writer, pe_replica, replica_loop, span_compute
from holdfast.runtime.sinks import claimed_writer, sink_replica, write_claims
from holdfast.runtime.sources import reader_source, replayable_source, staged_batches, trace_source

from . import node, orchestrator
from .schedule import draw_schedule, play

LIMIT = 10_000


@dataclass(frozen=True)
class Mutant:
    """A defect: in `function` of `module`, `old` becomes `new`. `users` are the modules that import the function by name."""

    module: ModuleType
    function: str
    old: str
    new: str
    users: tuple[ModuleType, ...] = ()


MUTANTS = {
    "a trimmed record is offered again and stays": Mutant(
        epoch_log,
        "EpochLog._withdraw_if_trimmed",
        "if not self.is_trimmed(record):",
        "if True:",
    ),
    "an exact record after an inexact one is dropped": Mutant(
        epoch_log, "EpochLog.offer", "if committed is not None and record.quality", "if False and record.quality"
    ),
    "what is computed from incomplete input is committed as exact": Mutant(
        pe_replica, "PeReplica._advance_live", "[Quality.TENTATIVE]", "[Quality.EXACT]"
    ),
    "the clean position follows first records": Mutant(
        pe_replica, "PeReplica._advance_clean", "self._inputs.final_records", "self._inputs.first_records"
    ),
    "the live position follows final records": Mutant(
        pe_replica, "PeReplica._advance_live", "self._inputs.first_records", "self._inputs.final_records"
    ),
    "a replica that the trimmed log has left behind stays there": Mutant(
        pe_replica, "PeReplica._skip_to_newer_checkpoint", "if self._poll_newer_checkpoint() is None:", "if True:"
    ),
    "the kept rows of the position are not advanced": Mutant(
        pe_replica,
        "PeReplica._run_job",
        "after_job = Position(whole.last, computed.kept_rows,",
        "after_job = Position(whole.last, position.kept_rows,",
    ),
    "catch-up publishes all rows in each epoch": Mutant(
        span_compute,
        "DriverCompute.run",
        "[rows] if len(spans) == 1 else [rows_of(rows, span) for span in spans]",
        "[rows for span in spans]",
    ),
    "without correction, a restarted replica counts missed epochs as processed cleanly": Mutant(
        pe_replica,
        "PeReplica._start_recovery",
        "epoch=end, tainted=end)",
        "epoch=end)",
    ),
    "incomplete input taints only its own epoch": Mutant(
        pe_replica,
        "qualities_without_correction",
        "elif tainted is not None and taint_epochs is not None and epoch",
        "elif True or epoch",
    ),
    "trimming goes one epoch too far": Mutant(
        trimming, "LogTrimmer.trim", "if stream in self._watched else 0", "if stream in self._watched else -1"
    ),
    "trimming ignores the producer": Mutant(
        trimming,
        "LogTrimmer.__init__",
        "setdefault((stream, task.task), []).append(task.name)",
        "setdefault((stream, task.task), [])",
    ),
    "trimming does not read the positions again": Mutant(
        trimming,
        "LogTrimmer.trim",
        "until=until)\n        until = min([until, *self._reader_epochs(stream, task)])",
        "until=until)",
    ),
    "the trim line is written too late": Mutant(
        epoch_log,
        "EpochLog.announce_trim",
        "if until > max(lines, default=until - 1):",
        "if until > max(lines, default=until - 1) + 2:",
    ),
    "a job joins before it saves its position": Mutant(
        shared_streams, "join_timelines", "epoch=timeline.first - 1)", "epoch=10**6)"
    ),
    "a restarted replica starts from the oldest checkpoint": Mutant(
        checkpoints, "Checkpoints.latest", "reversed(self._epochs(task))", "self._epochs(task)"
    ),
    "a checkpoint is one epoch ahead of what is committed": Mutant(
        checkpoints,
        "Checkpoints.save",
        "self._store.create(_name(task, position.epoch)",
        "self._store.create(_name(task, position.epoch + 1)",
    ),
    "the record is offered before its rows are stored": Mutant(
        output_writer,
        "OutputWriter.publish",
        "result = self.log.offer(record)",
        "contents = {file: self.store.read(file) for file in stored.files}; self.store.remove(list(contents)); "
        "result = self.log.offer(record); [self.store.create(*each) for each in contents.items()]",
    ),
    "the rows of a correction are removed": Mutant(
        output_writer, "OutputWriter.publish", "if result.accepted_as is None:", 'if result.accepted_as != "first":'
    ),
    "a task reads all rows instead of its share": Mutant(
        input_reader,
        "share_of",
        "if reading.of > 1:",
        "if reading.of > 2:",
    ),
    "an epoch begins before all of its inputs are there": Mutant(
        input_reader,
        "InputReader._records",
        "if None in records:",
        "if False:",
    ),
    "a trace source does not correct absent epochs": Mutant(
        trace_source, "TraceSource.__init__", "output.log.last_exact_epoch(", "output.log.last_epoch("
    ),
    "a trace source saves its checkpoint before it commits": Mutant(
        trace_source,
        "TraceSource.step",
        "self._output.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT)",
        "self.clean_position = Position(epoch, after=span.until); self._is_checkpoint_due() and self.save(); "
        "self._output.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT)",
    ),
    "a reader source forgets the batches in records past its checkpoint": Mutant(
        reader_source,
        "ReaderSource._continue_after_records",
        "max([saved.after, *(batch for batch in batches if batch is not None)])",
        "saved.after",
    ),
    "staged batches are removed before a record names them": Mutant(
        staged_batches, "StagedBatches.list_after", "if each <= number])", "if each <= number + 1])"
    ),
    "a sink does not correct": Mutant(sink_replica, "SinkReplica._write_first", "if quality is not Quality.EXACT:", "if False:"),
    "a sink's checkpoint passes epochs that wait for their correction": Mutant(
        sink_replica, "SinkReplica._advance_clean", "clean = min(self._inexact_epochs) - 1", "pass"
    ),
    "a sink calls incomplete output exact": Mutant(
        sink_replica, "sink_quality", "worst = max(", "return Quality.EXACT; worst = max("
    ),
    "a sink counts an epoch as written that another replica still writes": Mutant(
        sink_replica, "SinkReplica._write", 'return outcome in ("wrote", "existing")', 'return outcome != "overtaken"'
    ),
    "all tokens have the same number": Mutant(
        write_claims, "WriteClaims.claim", "WriteToken(self._run, epoch, kind, number)", "WriteToken(self._run, epoch, kind, 1)"
    ),
    "a claim is never taken over": Mutant(
        write_claims, "WriteClaims._is_expired", "return now_s - since_s > CLAIM_TIMEOUT_S", "return False"
    ),
    "an epoch is marked as written before the writer is called": Mutant(
        claimed_writer,
        "ClaimedWriter.write",
        "self._call_claimed(read_rows(), epoch, quality, token)",
        "self.claims.mark_written(token); self._call_claimed(read_rows(), epoch, quality, token)",
    ),
    "a writer that was overtaken is not reported": Mutant(
        claimed_writer, "ClaimedWriter.write", "if not self.claims.holds(token):", "if False:"
    ),
    "an outage is kept only in memory": Mutant(
        outages, "Outages.write", "self._store.replace(_name(task), json.dumps(asdict(outage)).encode())", "pass"
    ),
    "nobody commits absent epochs for a dead task": Mutant(
        absent_epochs, "AbsentCommitter._is_down", "if not positions:", "if False:"
    ),
    "absent epochs are committed although their inputs are missing": Mutant(
        absent_epochs, "AbsentCommitter._commit", "if task.reads else", "if False else"
    ),
    "hung replicas are not detected": Mutant(hung_replicas, "HungReplicas._is_hung", "stall.for_s += step_s", "stall.for_s += 0.0"),
    "upstream backup leaves the only living replica idle": Mutant(
        upstream_backup, "UpstreamBackup.check", "elif living and not living[0].active:", "elif False:"
    ),
    "the death of a PE host counts as the replica's failure": Mutant(
        restart_decision,
        "decide",
        "if at.failures >= policy.give_up_after:",
        "if at.failures + at.losses >= policy.give_up_after:",
        users=(orchestrator,),
    ),
    "a replica is started again in the same incarnation": Mutant(
        replica_changes, "runnable_assignment", "return k is None or", "return True or", users=(node,)
    ),
    "reports about earlier incarnations count": Mutant(replicas, "PlacedReplica.observe", "incarnation != self.incarnation or", ""),
    "an error of the log ends a replica": Mutant(replica_loop, "ReplicaLoop._retry_while_log_fails", "LOG_WAIT_LIMIT_S", "-1"),
    "a replica reads the range that it has proposed": Mutant(
        range_claims, "RangeClaims.claim", "return self.read(epoch)", "return proposal"
    ),
    "a range is used although its claim may have been removed": Mutant(
        range_claims, "RangeClaims.claim", "if checkpoint_epoch is not None and checkpoint_epoch >= epoch:", "if False:"
    ),
    "the claim that says where to continue is removed": Mutant(
        range_claims, "RangeClaims.remove_until", "int(number) < epoch", "int(number) <= epoch"
    ),
    "each task of a table begins where it looks first": Mutant(
        replayable_source,
        "ReplayableSource._start_after_records",
        "return self._claims.agree_on_start(name, self._reader.first)",
        "return self._reader.first()",
    ),
    "a range begins where the last proposed one ended": Mutant(
        replayable_source,
        "ReplayableSource.step",
        "self._start = claimed.end",
        "self._start = self._reader.newest(self._start, before_s=now_s)",
    ),
    "a target takes the last write again": Mutant(written_epochs, "WrittenEpochs.has", "token.epoch <= (", "token.epoch < ("),
    "a correction counts as a first output": Mutant(
        written_epochs, "WrittenEpochs.after", 'if token.kind == "first" else', "if True else"
    ),
    "a writer that was fenced off marks its epoch as written": Mutant(
        claimed_writer,
        "ClaimedWriter.write",
        'except FencedError:\n            return "wait"',
        "except FencedError:\n            pass",
    ),
    "activation leaves a gap while a replica catches up": Mutant(
        activation, "ActivationController._switch", "targets |= {n for n in active if _live(own[n]) is not None}", "pass"
    ),
    "activation does not replace dead replicas": Mutant(
        activation,
        "ActivationController._switch",
        "targets |= {n for n, replica in own.items() if replica.state in LIVING}",
        "pass",
    ),
    "a source on a node with a slow clock counts as hung": Mutant(
        hung_replicas, "HungReplicas._is_hung", "replica.status.lag_s != 0", "True"
    ),
    "a replica marks an epoch as written that others have passed": Mutant(
        write_claims, "WriteClaims.mark_written", "and not self._remove_if_over(token.epoch, name)", ""
    ),
    "a replica that the trimmed log has left behind has no work": Mutant(
        stream_progress, "_had", "or epoch <= (log.trimmed_until(stream, task) or epoch - 1)", ""
    ),
    "a canceled job passes its fence": Mutant(fences, "Fences.section", "if self._store.owner and", "if False and"),
    "a fence takes the place of a later record": Mutant(
        epoch_log, "EpochLog.fence", 'epoch, "first"), encode_fence(owner)', 'epoch + 1, "first"), encode_fence(owner)'
    ),
    "records past a fence have the names of those before": Mutant(
        fences, "Fences.section", "return sum(first <= epoch for first, _ in fences)", "return 0"
    ),
    "files are not synced": Mutant(local_folder, "LocalFolder._temporary", "self._calls.sync(temporary)", "pass"),
    "folders are not synced": Mutant(local_folder, "LocalFolder._sync_folder", "self._calls.sync(folder)", "pass"),
}


SEEDS: dict[str, int] = {
    "a trimmed record is offered again and stays": 0,
    "an exact record after an inexact one is dropped": 10,
    "what is computed from incomplete input is committed as exact": 44,
    "the clean position follows first records": 44,
    "a replica that the trimmed log has left behind stays there": 3,
    "the kept rows of the position are not advanced": 0,
    "catch-up publishes all rows in each epoch": 0,
    "without correction, a restarted replica counts missed epochs as processed cleanly": 0,
    "incomplete input taints only its own epoch": 0,
    "trimming goes one epoch too far": 0,
    "trimming ignores the producer": 0,
    "the trim line is written too late": 0,
    "a restarted replica starts from the oldest checkpoint": 5,
    "a checkpoint is one epoch ahead of what is committed": 0,
    "the record is offered before its rows are stored": 0,
    "the rows of a correction are removed": 10,
    "a task reads all rows instead of its share": 0,
    "an epoch begins before all of its inputs are there": 0,
    "a trace source does not correct absent epochs": 70,
    "a trace source saves its checkpoint before it commits": 7,
    "a reader source forgets the batches in records past its checkpoint": 0,
    "staged batches are removed before a record names them": 0,
    "a sink does not correct": 15,
    "a sink's checkpoint passes epochs that wait for their correction": 75,
    "a sink calls incomplete output exact": 15,
    "a sink counts an epoch as written that another replica still writes": 7,
    "all tokens have the same number": 5,
    "a claim is never taken over": 5,
    "an epoch is marked as written before the writer is called": 4,
    "nobody commits absent epochs for a dead task": 106,
    "absent epochs are committed although their inputs are missing": 5,
    "hung replicas are not detected": 21,
    "upstream backup leaves the only living replica idle": 56,
    "the death of a PE host counts as the replica's failure": 10,
    "a replica is started again in the same incarnation": 10,
    "reports about earlier incarnations count": 56,
    "an error of the log ends a replica": 2,
}
"""A schedule that has shown each mutant. Another one may show it after a change of the runtime."""


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Let the real code have a defect."""
    owner: Any = mutant.module
    *path, name = mutant.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = inspect.getattr_static(owner, name)
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    if mutant.old not in source:
        raise ValueError(f"'{mutant.old}' is not in {mutant.module.__name__}.{mutant.function}; adapt the mutant to the new code")
    mutated_source = source.replace(mutant.old, mutant.new)
    if path:
        mutated_source = f"class {path[-1]}:\n{textwrap.indent(mutated_source, '    ')}".replace(
            "super()", f"super({path[-1]}, self)"
        )
    namespace: dict[str, Any] = {}
    code = compile(f"from __future__ import annotations\n{mutated_source}", f"<mutant of {mutant.function}>", "exec")
    exec(code, vars(sys.modules[function.__module__]), namespace)
    mutated = vars(namespace[path[-1]])[name] if path else namespace[name]
    places = [owner, *mutant.users]
    for place in places:
        setattr(place, name, mutated)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, original)


def first_violation(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed whose schedule breaks a law with a mutant, and the law; None if there is none."""
    logging.disable(logging.CRITICAL)  # mutants make replicas fail with unexpected errors
    try:
        with applied(MUTANTS[name]):
            for seed in seeds:
                outcome = play(draw_schedule(seed))
                if outcome.violations:
                    return seed, outcome.first
        return None
    finally:
        logging.disable(logging.NOTSET)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of mutants; by default all")
    parser.add_argument("--limit", type=int, default=LIMIT, help="how many schedules to try for each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    names = [name for name in MUTANTS if not arguments.names or any(part in name for part in arguments.names)]
    missed = 0
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        results = {name: pool.apply_async(first_violation, (name, range(arguments.limit))) for name in names}
        for name, result in results.items():
            found = result.get()
            missed += found is None
            print(f"    {json.dumps(name)}: {None if found is None else found[0]},  # {found and found[1][:80]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
