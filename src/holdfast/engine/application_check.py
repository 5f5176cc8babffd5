"""Check an application: its definitions, its scores, what its operators call and, on a sample of a trace, the first law."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App, Graph, LastEpochs
from holdfast.engine.analysis import Schemas, check_score, examine
from holdfast.engine.epochs import ByBounds, ByTime, Cut, Span, join_spans, spans_of, with_epochs
from holdfast.engine.first_law import LawRun
from holdfast.engine.forbidden_calls import forbidden_calls
from holdfast.engine.query.query_check import CutDependence, QueryBreach, check_query
from holdfast.engine.query.query_replay import QUIET_BATCHES
from holdfast.engine.rule_coverage import unexercised_rules
from holdfast.engine.trace_reader import Columns, opened_trace
from holdfast.engine.trace_sample import Sample, take_sample
from holdfast.errors import OperatorError, TraceError

GROWTH = (1, 4, 16)
"""How many times as many rows are sampled while a keep rule is not exercised."""
MARGIN = 3
"""How many times as many epochs as the longest window has are sampled and drawn at random."""


@dataclass(frozen=True)
class SampleOptions:
    """How many tuples to sample at first, and into how many runs to divide their epochs, by `seed`."""

    trace: str
    columns: Mapping[str, Columns] | None
    rows: int
    parts: int
    seed: int


@dataclass(frozen=True)
class ApplicationCheck:
    """The errors of an application, and what the check could not decide. `sample` describes the rows on which the first law was
    tested; it is empty if it was not."""

    errors: list[str]
    warnings: list[str] = field(default_factory=list)
    sample: str = ""


def check_application(
    spark: SparkSession, app: App, *, sampling: SampleOptions | None, progress: Callable[[int, int], None]
) -> ApplicationCheck:
    """Return all errors of an application. Tests the first law only with `sampling` and if the definitions allow it.

    Operators with forbidden calls are not tested against the law, which would only show the effects of these calls.
    """
    graph = app.graph()
    schemas, errors = examine(graph, spark)
    errors += [e for s in app.scores for e in check_score(graph, spark, schemas, sink=s.sink, expression=s.expression)]
    calls = forbidden_calls(spark, graph, schemas)
    errors += map(str, calls)
    if sampling is None or any(source.name not in schemas for source in graph.sources):
        return ApplicationCheck(errors)
    try:
        with opened_trace(spark, graph, sampling.trace, columns=sampling.columns) as sources:
            if any(operator.name not in schemas for operator in graph.operators):
                return ApplicationCheck(errors)
            allowed = {operator.name for operator in graph.operators} - {call.operator.name for call in calls}
            law = FirstLawCheck(spark, graph, schemas, app.epoch_s, sampling.parts, sampling.seed)
            report = law.report(sources, rows=sampling.rows, only=allowed, progress=progress)
        return ApplicationCheck(errors + report.errors, report.warnings, report.sample)
    except (TraceError, OperatorError) as error:
        return ApplicationCheck([*errors, str(error)])


@dataclass(frozen=True)
class FirstLawCheck:
    """Tests the first law with the epochs of the application and with epochs drawn at random, in `parts` runs each."""

    spark: SparkSession
    graph: Graph
    schemas: Schemas
    epoch_s: float
    parts: int
    seed: int

    def report(
        self,
        sources: Mapping[str, DataFrame],
        *,
        rows: int,
        only: Collection[str],
        progress: Callable[[int, int], None],
    ) -> ApplicationCheck:
        """Return the errors on a sample of at least so many rows. The sample grows while a keep rule is not exercised."""
        own = ByTime(self.epoch_s) if all("time" in frame.columns for frame in sources.values()) else None
        for factor in GROWTH:
            sample = take_sample(self.spark, sources, rows=rows * factor, epochs=MARGIN * self._window, cut=own, seed=self.seed)
            runs = [self._run(sample, cut) for cut in (own, self._random_epochs(sample)) if cut is not None]
            unexercised = [unexercised_rules(self.graph, run.whole, run.spans) for run in runs]
            warnings = [
                sentence  # a window of epochs may depend on `time`, so random epochs do not exercise it
                for sentence, rule in unexercised[0].items()
                if isinstance(rule, LastEpochs) or all(sentence in others for others in unexercised)
            ]
            if not warnings or sample.is_whole:
                break
        queries = [operator for operator in self.graph.operators if operator.is_query and operator.name in only]
        functions = set(only) - {query.name for query in queries}
        number, total = count(), len(runs) * len(functions) + len(queries)

        def report_operator(_: str) -> None:
            progress(next(number), total)

        errors = {breach.operator.name: str(breach) for breach in runs[0].broken(only=functions, progress=report_operator)}
        remaining = functions - errors.keys() if len(runs) > 1 else set()
        for breach in runs[-1].broken(only=remaining, progress=report_operator):
            if self._cuts_by_arrival or len(runs[0].spans) < self.parts:
                errors[breach.operator.name] = str(breach)
            else:
                name = breach.operator.name
                warnings.append(f"with epochs at other times ('{name}' holds with epochs of {self.epoch_s:g} s): {breach}")
        epochs = spans_of(with_epochs(sample.sources, own or self._random_epochs(sample)), lull=QUIET_BATCHES) if queries else []
        for query in queries:
            report_operator(query.name)
            match check_query(self.spark, self.graph, self.schemas, query, runs[0].whole, epochs):
                case QueryBreach() as failure:
                    errors[query.name] = str(failure)
                case CutDependence() as dependence:
                    warnings.append(str(dependence))
        progress(total, total)
        places = "the whole trace" if sample.is_whole else f"{len(sample.stretches)} places of the trace"
        cut = f"{runs[0].spans[-1].last - runs[0].spans[0].first + 1:,} epochs" if own is None else f"epochs of {self.epoch_s:g} s"
        text = f"{len(sample.seqs):,} tuples of {places}, cut into {cut}" + (" and at random" if own is not None else "")
        return ApplicationCheck(list(errors.values()), warnings, text)

    @property
    def _window(self) -> int:
        """The number of epochs in the longest window."""
        rules = [rule for operator in self.graph.operators for rule in operator.keep.values()]
        return 1 + max((rule.n for rule in rules if isinstance(rule, LastEpochs)), default=0)

    @property
    def _cuts_by_arrival(self) -> bool:
        """Whether a running job cuts a source by arrival, so that an epoch holds any stretch of `time`."""
        return any(source.reader is not None or source.input is not None for source in self.graph.sources)

    def _random_epochs(self, sample: Sample) -> ByBounds:
        """Return epochs that end at random tuples of the sample, enough for the longest window."""
        number = min(max(self.parts, MARGIN * self._window), len(sample.seqs) - 1)
        return ByBounds(tuple(sorted(random.Random(self.seed).sample(sample.seqs[:-1], number))))

    def _run(self, sample: Sample, cut: Cut) -> LawRun:
        sources = with_epochs(sample.sources, cut)
        spans = _divided(spans_of(sources, lull=self._window), self.parts, random.Random(self.seed))
        return LawRun.of(self.spark, self.graph, sources, spans, self.schemas)


def _divided(spans: Sequence[Span], parts: int, rng: random.Random) -> list[Span]:
    """Return the spans joined into at most so many, with one bound drawn from each of equal stretches."""
    limits = np.linspace(0, len(spans), min(parts, len(spans)) + 1).astype(int)
    ends = [rng.randint(int(low) + 1, int(high)) for low, high in pairwise(limits)][:-1]
    return [join_spans(spans[low:high]) for low, high in zip([0, *ends], [*ends, len(spans)], strict=True)]
