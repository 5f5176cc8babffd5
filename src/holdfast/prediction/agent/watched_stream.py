"""One stream of a watched task: learns from its exact epochs, and predicts an epoch that is late."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from holdfast.documents.job import Contract
from holdfast.errors import HoldfastError, TrimmedError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.row_files import read_record_rows
from holdfast.prediction.agent.prediction_scores import PredictionScores
from holdfast.prediction.agent.task_inputs import TaskInput, input_rows
from holdfast.prediction.column_roles import classify_columns
from holdfast.prediction.contract_terms import contract_predictors, predictor_settings
from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.from_input.echo import WINDOW
from holdfast.prediction.learned_state import (
    LearnedState,
    LearnedStateError,
    decode_learned_state,
    learned_state,
    restore_learned_state,
)
from holdfast.prediction.prediction import Prediction
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.ranking.model_builder import Clock, TrainingResult

RANKING_S = 0.5
"""The longest time for which a new agent trains after every epoch of the log, to rank its algorithms."""
TRAINING_LIMIT_S = 0.1
"""How long it then waits for an algorithm of another package: the PE may be late at this moment."""
SAVE_S, MOST_SAVED_KEYS = 30.0, 20_000
"""How often what was learned is saved in the log, and the most keys of a stream that is saved, to bound the cost."""
READ_MARGIN, READS = 4.0, 5
"""The input of a late epoch is read only if READ_MARGIN times the usual reading time is left before the deadline. The usual time is
the median of the last READS times, because one delay of the machine does not predict the next."""


class WatchedStream:
    """A stream and its predictor, which is None until the stream's first rows show its columns.

    Training runs in `trainer`, in another thread. Its results are taken over between two steps of the agent.
    """

    def __init__(
        self,
        name: str,
        task: int,
        *,
        store: Store,
        keys: Sequence[str],
        contract: Contract,
        trainer: Executor,
        inputs: Sequence[TaskInput] = (),
        timer: Clock = time.perf_counter,
    ) -> None:
        self.name, self._task, self._store, self._keys, self._contract = name, task, store, keys, contract
        self._log, self._trainer, self._inputs, self._timer = EpochLog(store), trainer, inputs, timer
        self._training: Future[TrainingResult] | None = None
        self._training_due = False
        self.predictor: EpochPredictor | None = None
        self.scores: PredictionScores | None = None
        self.newest_learned = -1
        self._saved_s, self._saved_epoch, self._saving_error = timer(), -1, ""
        self._read_durations_s: deque[float] = deque([0.0], maxlen=READS)

    def learn(self, *, until: int, exact: int) -> list[Record]:
        """Learn from every new exact epoch before `until`, and return their records, oldest first.

        Wait for an epoch without a final record unless a later one, up to `exact`, has one: then it will never get any. A new agent
        trains after every epoch, because it cannot rank algorithms that have never predicted.
        """
        records: list[Record] = []
        ranking_until_s = self._timer() + RANKING_S if self.predictor is None else 0.0
        while self.newest_learned + 1 < until:
            record = self._log.final(self.name, self._task, epoch=self.newest_learned + 1)
            if record is None and self.newest_learned + 1 >= exact:
                break
            self.newest_learned += 1
            if record is not None:
                records.append(record)
                self._observe(record)
                if self.predictor is not None and self._timer() < ranking_until_s:
                    self.predictor.train(limit_s=TRAINING_LIMIT_S)
        self._continue_training()
        if self._timer() >= self._saved_s + SAVE_S:
            self.save()
        return records

    def save(self) -> None:
        """Save what was learned in the log, in the trainer's thread, unless it is saved or too large."""
        self._saved_s = self._timer()
        if self.predictor is None or self.predictor.epoch in (None, self._saved_epoch) or self.predictor.keys > MOST_SAVED_KEYS:
            return
        state = learned_state(self.predictor)
        assert state is not None
        self._saved_epoch = state.epoch
        self._trainer.submit(self._write, state)

    def _write(self, state: LearnedState) -> None:
        try:
            self._store.replace(self._state_name, state.encode())
            self._saving_error = ""
        except HoldfastError as error:  # the next attempt follows in a moment
            self._saving_error = str(error)

    def restore(self, *, last_own: int) -> str | None:
        """Continue from what an earlier agent saved. Return why it cannot: empty if it can, None if nothing was saved.

        `last_own` is the last epoch that the task itself has committed. Later epochs of the log follow by `learn`.
        """
        content = self._store.read(self._state_name)
        if content is None:
            return None
        try:
            state = decode_learned_state(content)
            if state.epoch > last_own:
                raise LearnedStateError(f"it is of epoch {state.epoch}, and the task's last epoch is {last_own}")
            predictor, scores = self._new_predictor(state.schema)
            restore_learned_state(predictor, state)
        except HoldfastError as error:
            return str(error)
        self.predictor, self.scores = predictor, scores
        self.newest_learned, self._saved_epoch = max(self.newest_learned, state.epoch), state.epoch
        self._training_due = True
        return ""

    @property
    def _state_name(self) -> str:
        return f"learned/{quote(self.name, safe='')}/{self._task}"

    def skip_to(self, epoch: int) -> None:
        """Begin with this epoch, because earlier ones were trimmed."""
        self.newest_learned = max(self.newest_learned, epoch - 1)

    def predict(self, epoch: int, *, time_left_s: float, seqs: tuple[int, int] | None) -> Prediction:
        """Predict an epoch. The result has no rows, but a reason, if that is impossible."""
        if self.predictor is None:
            need = self._contract.predicting.least_outputs
            return Prediction(epoch, None, {}, 0, f"no output was observed yet; a prediction needs {need} per key", 0.0)
        began_s = self._timer()
        for other in range(max(self.newest_learned, epoch - WINDOW) + 1, epoch + 1):
            in_time = time_left_s > READ_MARGIN * statistics.median(self._read_durations_s)
            if not self.predictor.input_predictor.echo.has_input(other) and in_time:
                self._read_input(other, final=False)
        remaining_s = max(0.0, time_left_s - (self._timer() - began_s))
        return self.predictor.predict(epoch, remaining_s, seqs=seqs)

    def add_committed(self, prediction: Prediction) -> None:
        """Remember a committed prediction, to score it when the exact epoch arrives."""
        if prediction.rows is not None and self.scores is not None:
            self.scores.add_prediction(prediction.epoch, prediction.rows)

    def change(self, contract: Contract) -> None:
        """Continue under another contract."""
        self._contract = contract
        if self.predictor is not None:
            self.predictor.change_settings(predictor_settings(contract))
            self.predictor.use_predictors(contract_predictors(contract))
            self._training_due = True  # train new algorithms now: the next epoch of a failed PE may be long in coming

    def view(self) -> Callable[[], dict[str, Any]]:
        """Return a function that describes the stream to the agent manager, in any thread."""
        if self.predictor is None or self.scores is None:
            return lambda: {"epochs_observed": 0, "algorithms": [], "accuracy": None, "by_column": {}, "scored_epochs": 0}
        scores = {
            "accuracy": self.scores.accuracy,
            "by_column": self.scores.by_column,
            "scored_epochs": self.scores.epochs,
            "saving_error": self._saving_error,
        }
        build = predictor_view(self.predictor)
        return lambda: {**build(), **scores}

    def _observe(self, record: Record) -> None:
        rows = self._rows(record)
        if rows is None:
            return
        if self.predictor is None:
            self.predictor, self.scores = self._new_predictor(rows.schema)
        assert self.scores is not None
        self._read_input(record.epoch, final=True)
        self.predictor.observe(record.epoch, rows)
        self.scores.add_truth(record.epoch, rows)
        self._training_due = True

    def _new_predictor(self, schema: pa.Schema) -> tuple[EpochPredictor, PredictionScores]:
        contract, terms = self._contract, self._contract.predicting
        columns = classify_columns(schema, self._keys, carry=terms.carry, blank=terms.blank, stream=self.name)
        streams = list(dict.fromkeys(task_input.name for task_input in self._inputs))
        predictors, settings = contract_predictors(contract), predictor_settings(contract)
        predictor = EpochPredictor(columns, predictors, settings=settings, inputs=streams, clock=self._timer)
        return predictor, PredictionScores(columns)

    def _read_input(self, epoch: int, *, final: bool) -> None:
        """Give the input of an epoch to the predictor, if it can use it."""
        assert self.predictor is not None
        echo = self.predictor.input_predictor.echo
        if not echo.can_use(epoch) or not self._contract.predicting.from_input:
            return
        began_s = self._timer()
        rows_and_exact = input_rows(self._inputs, epoch, final=final)
        if rows_and_exact is not None:
            rows, exact = rows_and_exact
            echo.add_input(epoch, rows, exact=exact)
        self._read_durations_s.append(self._timer() - began_s)

    def _rows(self, record: Record) -> pa.Table | None:
        """Return the rows of a record; None if they were trimmed, or if there are none and the columns are unknown."""
        try:
            tables = read_record_rows(self._store, record)
        except TrimmedError:
            return None  # all its readers are past it
        if tables:
            return pa.concat_tables(tables)
        return None if self.predictor is None else self.predictor.columns.schema.empty_table()

    def _continue_training(self) -> None:
        """Take over the result of a finished training round, and start the next one if it is due."""
        if self.predictor is None:
            return
        if self._training is not None and self._training.done():
            self.predictor.accept(self._training.result())
            self._training = None
        if self._training_due and self._training is None:
            self._training_due = False
            self._training = self._trainer.submit(self.predictor.training_round().run)
