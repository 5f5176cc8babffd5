"""The base class of all replicas: what a source, a PE and a sink share, and what a replica loop calls."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.documents.job import Contract, Task
from holdfast.log import Quality
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline

CHECKPOINT_POLL_S = 1.0
"""How often a replica without work checks whether another replica has saved a newer checkpoint."""


@dataclass(frozen=True)
class ReplicaContext:
    """What every replica of a task needs. `after_checkpoint` receives the epoch of each checkpoint that the replica saves."""

    task: Task
    contract: Contract
    timeline: Timeline
    checkpoints: Checkpoints
    after_checkpoint: Callable[[int], None] = lambda epoch: None


class Replica:
    """One replica of a task, advanced by `step` until it is `finished`.

    `clean_position` follows final records and `live_position` follows first records. Only clean positions are checkpointed.
    """

    clean_position: Position
    live_position: Position
    _saved_epoch: int

    def __init__(self, context: ReplicaContext, *, clock: Callable[[], float]) -> None:
        self.task, self.contract, self._timeline = context.task, context.contract, context.timeline
        self._checkpoints, self._after_checkpoint, self._clock = context.checkpoints, context.after_checkpoint, clock
        self.checkpoint_epochs = self.contract.checkpoint_epochs
        self.rows_read = 0
        self._next_checkpoint_poll_s = 0.0
        self._start_from_checkpoint()

    @property
    def finished(self) -> bool:
        """Whether the clean position has reached the job's last epoch."""
        return self._timeline.last is not None and self.clean_position.epoch >= self._timeline.last

    @property
    def quality(self) -> Quality:
        """The quality of what the replica writes now."""
        return Quality.EXACT

    @property
    def rows_behind(self) -> dict[str, int]:
        """How many rows a replayable source had still to read when it last looked, by partition."""
        return {}

    def step(self) -> bool:
        """Do the next piece of work. Return whether there was any."""
        raise NotImplementedError

    def save(self) -> None:
        """Save the clean position as a checkpoint, unless the newest checkpoint is at that epoch already."""
        if self.clean_position.epoch > self._saved_epoch:
            self._checkpoints.save(self.task.name, self.clean_position)
            self._saved_epoch = self.clean_position.epoch
            self._after_checkpoint(self._saved_epoch)

    def set_rank(self, rank: int) -> None:
        """Apply the replica's rank. The primary has rank 0; secondaries save half as many checkpoints."""
        self.checkpoint_epochs = self.contract.checkpoint_epochs * (1 if rank == 0 else 2)

    def on_activation(self) -> None:
        """Prepare for work after the replica was idle."""

    def close(self) -> None:
        """Stop or close everything that must end with the replica's loop."""

    def _start_from_checkpoint(self, *, first_after: int = 0) -> None:
        """Move to the newest checkpoint, or without one to the start of the job, with `first_after` as the position's `after`."""
        saved = self._checkpoints.latest(self.task.name)
        self.clean_position = self.live_position = saved or Position(self._timeline.first - 1, after=first_after)
        self._saved_epoch = self.clean_position.epoch

    def _is_checkpoint_due(self) -> bool:
        return self.finished or self.clean_position.epoch - self._saved_epoch >= self.checkpoint_epochs

    def _poll_newer_checkpoint(self) -> int | None:
        """Return the epoch of a checkpoint past the clean position, saved by another replica. Look at most once per interval."""
        if self._clock() < self._next_checkpoint_poll_s:
            return None
        self._next_checkpoint_poll_s = self._clock() + CHECKPOINT_POLL_S
        newest = self._checkpoints.latest_epoch(self.task.name)
        return newest if newest is not None and newest > self.clean_position.epoch else None
