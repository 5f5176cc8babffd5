"""One stream of a watched PE as its agent knows it: learned from exact epochs, predicted when one is late."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pyarrow as pa

from holdfast.documents.job import Contract
from holdfast.errors import TrimmedError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.row_files import read_record_rows
from holdfast.prediction import EpochPredictor, Prediction, columns_of, view
from holdfast.prediction.agent.inputs import Input, input_rows
from holdfast.prediction.agent.scores import Scores
from holdfast.prediction.contract_terms import predictors_of, settings_of
from holdfast.prediction.echo import WINDOW
from holdfast.prediction.ranking.model_builder import Clock, Done

RANKING_S = 0.5
"""How long a new agent takes at most to rank its algorithms, epoch by epoch, on what the log still has."""
WAITS_S = 0.1
"""How long it waits meanwhile for an algorithm of another package: the PE may be late this moment."""
LEAVES, LATELY = 4.0, 5
"""So many times what it took lately must be left before the deadline for the input of a late epoch to be read: the median of so
many times, since one that the machine held up says nothing of the next."""


class WatchedStream:
    """What is known of a stream. Its columns are those of its first rows, so nothing is known before there are any.

    Learning runs in `learner`, a thread apart; what it came to is taken up between two steps.
    """

    def __init__(
        self,
        name: str,
        task: int,
        *,
        store: Store,
        keys: Sequence[str],
        contract: Contract,
        learner: Executor,
        inputs: Sequence[Input] = (),
        timer: Clock = time.perf_counter,
    ) -> None:
        self.name, self._task, self._store, self._keys, self._contract = name, task, store, keys, contract
        self._log, self._learner, self._inputs, self._timer = EpochLog(store), learner, inputs, timer
        self._learning: Future[Done] | None = None
        self._due = False
        self.stand_in: EpochPredictor | None = None
        self.scores: Scores | None = None
        self.learned = -1
        self._read_s: deque[float] = deque([0.0], maxlen=LATELY)

    def learn(self, *, until: int, exact: int) -> list[Record]:
        """Take in every exact epoch before `until` that is new, and return those records, oldest first.

        An epoch that is not exact is waited for, unless a later one, up to `exact`, already is: then it will never be. What a new
        agent finds in the log is learned epoch by epoch: of algorithms that were never tried, none can be told from another.
        """
        taken: list[Record] = []
        ranks_until_s = self._timer() + RANKING_S if self.stand_in is None else 0.0
        while self.learned + 1 < until:
            record = self._log.final(self.name, self._task, epoch=self.learned + 1)
            if record is None and self.learned + 1 >= exact:
                break
            self.learned += 1
            if record is not None:
                taken.append(record)
                self._take(record)
                if self.stand_in is not None and self._timer() < ranks_until_s:
                    self.stand_in.learn(limit_s=WAITS_S)
        self._go_on_learning()
        return taken

    def skip_to(self, epoch: int) -> None:
        """Begin with this epoch; those before are gone."""
        self.learned = max(self.learned, epoch - 1)

    def predict(self, epoch: int, *, time_left_s: float, seqs: tuple[int, int] | None) -> Prediction:
        """The epoch as it will probably be; without rows, and with the reason, where nothing can be said."""
        if self.stand_in is None:
            need = self._contract.predicting.least_outputs
            return Prediction(epoch, None, {}, 0, f"no output was observed yet; a prediction needs {need} per key", 0.0)
        began_s = self._timer()
        for other in range(max(self.learned, epoch - WINDOW) + 1, epoch + 1):
            if not self.stand_in.from_input.echo.knows(other) and time_left_s > LEAVES * statistics.median(self._read_s):
                self._tell(other, final=False)
        left_s = max(0.0, time_left_s - (self._timer() - began_s))
        return self.stand_in.predict(epoch, left_s, seqs=seqs)

    def committed(self, prediction: Prediction) -> None:
        """Remember a prediction that stands in the log, to be judged when the truth comes."""
        if prediction.rows is not None and self.scores is not None:
            self.scores.predicted(prediction.epoch, prediction.rows)

    def change(self, contract: Contract) -> None:
        """Go on under another contract."""
        self._contract = contract
        if self.stand_in is not None:
            self.stand_in.change(settings_of(contract))
            self.stand_in.use(predictors_of(contract))
            self._due = True  # new algorithms learn now: the next epoch of a PE that is away may not come for long

    def view(self) -> dict[str, Any]:
        """What the agent manager sees of it."""
        if self.stand_in is None or self.scores is None:
            return {"epochs_observed": 0, "algorithms": [], "accuracy": None, "by_column": {}, "scored_epochs": 0}
        scores = self.scores
        return {**view(self.stand_in), "accuracy": scores.accuracy, "by_column": scores.by_column, "scored_epochs": scores.epochs}

    def _take(self, record: Record) -> None:
        rows = self._rows(record)
        if rows is None:
            return
        if self.stand_in is None:
            contract = self._contract
            terms = contract.predicting
            columns = columns_of(rows.schema, self._keys, carry=terms.carry, blank=terms.blank, stream=self.name)
            streams = list(dict.fromkeys(each.name for each in self._inputs))
            self.stand_in = EpochPredictor(
                columns, predictors_of(contract), settings=settings_of(contract), inputs=streams, clock=self._timer
            )
            self.scores = Scores(columns)
        assert self.scores is not None
        self._tell(record.epoch, final=True)
        self.stand_in.observe(record.epoch, rows)
        self.scores.came(record.epoch, rows)
        self._due = True

    def _tell(self, epoch: int, *, final: bool) -> None:
        """Let the stand-in know what went into an epoch, where that can be of use."""
        assert self.stand_in is not None
        echo = self.stand_in.from_input.echo
        if echo.silent or not self._contract.predicting.from_input:
            return
        began_s = self._timer()
        found = input_rows(self._inputs, epoch, final=final)
        if found is not None:
            rows, exact = found
            echo.tell(epoch, rows, exact=exact)
        self._read_s.append(self._timer() - began_s)

    def _rows(self, record: Record) -> pa.Table | None:
        """The rows of a record; None where there is nothing to learn from: no rows before the columns are known."""
        try:
            found = read_record_rows(self._store, record)
        except TrimmedError:
            return None  # all its readers are past it
        if found:
            return pa.concat_tables(found)
        return None if self.stand_in is None else self.stand_in.columns.schema.empty_table()

    def _go_on_learning(self) -> None:
        if self.stand_in is None:
            return
        if self._learning is not None and self._learning.done():
            self.stand_in.accept(self._learning.result())
            self._learning = None
        if self._due and self._learning is None:
            self._due = False
            self._learning = self._learner.submit(self.stand_in.work().done)
