"""Run a campaign: the golden runs, then every trial that has no outcome yet, in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Literal

from holdfast.assess.batched import MAX_SLOTS, ROWS, BatchedRunner, Slot, obstacle
from holdfast.assess.batched_check import find_disagreement, one_case_per_path
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_fit import Rates, case_tempo, divergence_errors, require_room_for_outages
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case, OutageLocator, Tempo, Trial, outage_name, unreachable_errors
from holdfast.assess.fault_reach import FaultPath, GoldenIndex, Reach, find_fault_path, reach_of
from holdfast.assess.golden_runs import Golden, load_golden, run_golden, save_golden
from holdfast.assess.injection import Injection
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.parallel_work import run_parallel
from holdfast.assess.progress import Progress, Steps, silent
from holdfast.assess.whole_trace_trial import run_whole_trace
from holdfast.documents.fault import Divergence, Reordering
from holdfast.errors import CompoundError, HoldfastError

Way = Literal["auto", "fast", "slow"]
GOLDEN_IN_MEMORY = 8
"""The largest number of golden runs in memory."""


@dataclass(frozen=True)
class Job:
    """Trials that share one injection: the same seqs under the same arrival order."""

    case: Case
    injection: Injection
    run: int
    trials: tuple[Trial, ...]


Work = Callable[[], list[tuple[Job, TrialOutcome]]]


class Runner:
    """Runs a campaign. `not_batched` has, for each case whose trials cannot share Spark jobs, the reason."""

    def __init__(
        self,
        context: CampaignContext,
        campaign: Campaign,
        *,
        way: Way = "auto",
        verify: bool = True,
        rows: int = ROWS,
        rates: Rates | None = None,
        progress: Progress = silent,
    ) -> None:
        """`rates` are known rates of PEs and sources; others are measured on the trace. `verify` tests batched trials first."""
        self.context, self.campaign = context, campaign
        self._rates = dict(rates or {})
        self._batch_rows = rows
        graph = context.graph
        fault = campaign.fault_for(campaign.cases[0], offset=0, tuples=1)
        self.fault_paths: Mapping[str, FaultPath] = {
            case.name: find_fault_path(graph, context.shapes, campaign.fault_for(case, offset=0, tuples=1), context.sink)
            for case in campaign.cases
        }
        errors = unreachable_errors(graph, campaign.cases, context.sink)
        if isinstance(fault, Divergence):
            errors += divergence_errors(context, campaign.cases)
        if errors:
            raise CompoundError("the campaign", errors)
        whole = "requested with --way slow" if way == "slow" else None
        if whole is None and isinstance(fault, Reordering):
            whole = "reordered tuples change which key a seq belongs to"
        obstacles = {name: whole or obstacle(context, fault_path) for name, fault_path in self.fault_paths.items()}
        self.not_batched = {name: reason for name, reason in obstacles.items() if reason}
        shared = [case for case in campaign.cases if case.name not in self.not_batched]
        compared = one_case_per_path(shared, self.fault_paths) if verify else []
        steps = Steps(progress, "preparing", of=1 + (1 + len(compared) if compared else 0))
        if compared and (reason := find_disagreement(context, campaign, self.fault_paths, cases=compared, step=steps.done)):
            self.not_batched = dict.fromkeys(self.fault_paths, reason)
        if way == "fast" and self.not_batched:
            name, reason = next(iter(self.not_batched.items()))
            raise HoldfastError(f"trials of {name} cannot share Spark jobs: {reason}; omit --way to run each of them separately")
        self.locator, self.golden_index = self._read_streams()
        steps.end()

    @property
    def why_none_batched(self) -> str | None:
        """Why no trials share jobs; None if some do."""
        return next(iter(self.not_batched.values())) if len(self.not_batched) == len(self.fault_paths) else None

    def tuples(self, case: Case, outage_s: float, pace: Any) -> int:
        """Return the number of tuples that a case loses in an outage."""
        return case.tuples(outage_s, self.tempo(case).at(pace))

    def tempo(self, case: Case) -> Tempo:
        """Return the rate at which a case loses tuples."""
        return case_tempo(self.context, self.locator, case, self._rates)

    def injection_of(self, trial: Trial) -> Injection:
        case = self.campaign.case(trial.case)
        tuples = self.tuples(case, trial.outage_s, trial.pace)
        first, last = self.locator.locate(self.context.graph, case, offset=trial.offset, tuples=tuples)
        return Injection(self.campaign.fault_for(case, offset=trial.offset, tuples=tuples), first, last)

    def run(self, results: Results, *, parallel: int = 2, progress: Progress = silent) -> None:
        """Run all trials that have no outcome yet. After an interruption at any time, a second call continues."""
        done = results.done()
        trials = list(self.campaign.trials())
        require_room_for_outages(self.context, self.campaign, self._rates)
        remaining = [trial for trial in trials if trial not in done]
        self._golden(results, progress=progress)
        if not remaining:
            return
        golden = lru_cache(GOLDEN_IN_MEMORY)(partial(self._golden_run, results))
        count = len(trials) - len(remaining)
        progress("trials", count, len(trials))
        for finished in run_parallel(self._work(remaining, golden), parallel):
            results.add([(trial, outcome) for job, outcome in finished for trial in job.trials])
            count += sum(len(job.trials) for job, _ in finished)
            progress("trials", count, len(trials))
        self.context.release()

    def _read_streams(self) -> tuple[OutageLocator, GoldenIndex | None]:
        context, campaign = self.context, self.campaign
        streams = {stream for case in campaign.cases for stream in context.injected_edges(case)}
        keyed = not isinstance(context.trace_key, str)
        if keyed:
            streams |= {stream for stream, _ in context.kept_streams()}
            streams |= {stream for fault_path in self.fault_paths.values() for stream in fault_path.inputs}
        seqs = context.stream_seqs(streams)
        return context.locator(campaign.cases, seqs), context.golden_index(seqs) if keyed else None

    def _runs(self) -> int:
        return 1 if self.context.deterministic else self.campaign.golden_runs

    def _run_of(self, trial: Trial) -> int:
        """Return the number of the golden run that a trial is compared with."""
        return 0 if self.context.deterministic else trial.repetition

    def _golden(self, results: Results, *, progress: Progress) -> None:
        """Make every golden run, and write the facts and score parts that the report needs."""
        facts = results.read("facts")
        if results.read("golden") is not None and facts is not None:
            if facts.get("origin", 0) != self.context.sections.origin:
                raise HoldfastError(f"the results in folder '{results.folder}' are of an earlier version; give another folder")
            return
        runs = self._runs()
        progress("golden runs", 0, runs)
        parts: list[dict[str, list[float]]] = []
        affected: dict[str, dict[str, list[dict[str, float]]]] = {case.name: {} for case in self.campaign.cases}
        reaches = {} if self.golden_index is None or self.campaign.affected else self._widest()
        for run in range(runs):
            golden = self._golden_run(results, run)
            parts.append({part: values.tolist() for part, values in golden.parts.items()})
            for (case, offset), reach in reaches.items():
                if golden.outputs is not None:
                    sums = golden.outputs.within(reach, self.context.sections)[1]
                    totals = {part: float(values.sum()) for part, values in sums.items()}
                    affected[case].setdefault(str(offset), []).append(totals)
            if run + 1 < runs:
                progress("golden runs", run + 1, runs)
        results.write("facts", self._facts(affected))
        results.write("golden", {"runs": parts})
        progress("golden runs", runs, runs)

    def _golden_run(self, results: Results, run: int) -> Golden:
        """Return a golden run from its file; make it if there is none."""
        path = results.folder / "golden" / f"{run}.npz"
        if not path.exists():
            additive = all(score.additive for score in self.context.scores)
            outputs = self.golden_index is not None and additive
            save_golden(run_golden(self.context, self.campaign.seed_of(run), outputs=outputs), path)
        return load_golden(path)

    def _widest(self) -> dict[tuple[str, int], Reach]:
        """Return the reach of the longest outage for each case and offset: the affected section of Eq. 1 and 2."""
        assert self.golden_index is not None
        reaches = {}
        longest = max(self.campaign.outages_s)
        for case in self.campaign.cases:
            pace = max(self.campaign.paces, key=lambda pace: self.tuples(case, longest, pace))
            for offset in self.campaign.offsets:
                injection = self.injection_of(Trial(case.name, offset, longest, pace, 0))
                fault_path = self.fault_paths[case.name]
                reaches[case.name, offset] = reach_of(
                    self.golden_index, fault_path, injection.first, injection.last, sink=self.context.sink
                )
        return reaches

    def _facts(self, affected: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the report needs besides outcomes: rates, outages in tuples, seqs of offsets, and how trials were run."""
        campaign, context = self.campaign, self.context
        known = all(len(runs) == self._runs() for case in affected.values() for runs in case.values())
        rates = {case.name: self.tempo(case) for case in campaign.cases}
        return {
            "sections": context.sections.count,
            "origin": context.sections.origin,
            "deterministic": context.deterministic,
            "why_slow": self.why_none_batched,
            "apart": {} if self.why_none_batched else self.not_batched,
            "source": {
                "tuples": len(context.rows.seq),
                "seqs": context.span[1],
                "average": context.rows.tempo.average,
                "peak": context.rows.tempo.peak,
            },
            "rates": {name: {"average": tempo.average, "peak": tempo.peak} for name, tempo in rates.items()},
            "tuples": {
                case.name: {outage_name(o, p): self.tuples(case, o, p) for o in campaign.outages_s for p in campaign.paces}
                for case in campaign.cases
            },
            "firsts": {str(offset): int(self.locator.source[offset]) for offset in campaign.offsets},
            "lasts": {
                str(offset): self.locator.last(offset, campaign.affected) for offset in campaign.offsets if campaign.affected
            },
            "affected": affected if known and any(affected.values()) else None,
        }

    def _jobs(self, trials: Sequence[Trial]) -> Iterator[Job]:
        """Yield jobs, each with all trials that share an injection, in the order of cases and offsets."""
        for (case, _), alike in groupby(trials, key=lambda trial: (trial.case, trial.offset)):
            jobs: dict[tuple[int, int, int], list[Trial]] = {}
            injections: dict[tuple[int, int, int], Injection] = {}
            for trial in alike:
                injection = self.injection_of(trial)
                place = (injection.first, injection.last, self._run_of(trial))
                injections.setdefault(place, injection)
                jobs.setdefault(place, []).append(trial)
            for place, same in jobs.items():
                yield Job(self.campaign.case(case), injections[place], place[2], tuple(same))

    def _work(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        """Yield pieces of work lazily, so that memory holds only those that run.

        Repetitions are processed in groups of GOLDEN_IN_MEMORY golden runs, which bounds the golden runs in memory.
        """

        def part(trial: Trial) -> int:
            return self._run_of(trial) // GOLDEN_IN_MEMORY

        for _, some in groupby(sorted(trials, key=part), key=part):
            trials = list(some)
            yield from self._batched_work([trial for trial in trials if trial.case not in self.not_batched], golden)
            yield from self._separate_work([trial for trial in trials if trial.case in self.not_batched], golden)

    def _batched_work(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        if not trials:
            return
        assert self.golden_index is not None
        runner = BatchedRunner(self.context, self.golden_index)
        for fault_path, jobs in groupby(self._jobs(trials), key=lambda job: self.fault_paths[job.case.name]):
            for batch in _batches(jobs, runner, fault_path, seed_of=self.campaign.seed_of, rows=self._batch_rows):

                def work(
                    batch: list[tuple[Job, Slot]] = batch, fault_path: FaultPath = fault_path
                ) -> list[tuple[Job, TrialOutcome]]:
                    runs = {slot.seed: golden(job.run) for job, slot in batch}
                    outcomes = runner.run(fault_path, [slot for _, slot in batch], runs)
                    return [(job, outcome) for (job, _), outcome in zip(batch, outcomes, strict=True)]

                yield work

    def _separate_work(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        for job in self._jobs(trials):
            yield partial(self._run_separately, job, golden)

    def _run_separately(self, job: Job, golden: Callable[[int], Golden]) -> list[tuple[Job, TrialOutcome]]:
        return [(job, run_whole_trace(self.context, job.injection, golden(job.run)))]


def _batches(
    jobs: Iterator[Job], runner: BatchedRunner, fault_path: FaultPath, *, seed_of: Callable[[int], int], rows: int
) -> Iterator[list[tuple[Job, Slot]]]:
    """Yield batches of jobs with their slots, each within the bounds on rows and slots. Repetitions share a reach."""
    batch: list[tuple[Job, Slot]] = []
    batch_rows, last = 0, None
    for job in jobs:
        same = last is not None and (last.injection.first, last.injection.last) == (job.injection.first, job.injection.last)
        slot = replace(last, seed=seed_of(job.run)) if same and last else runner.slot(fault_path, job.injection, seed_of(job.run))
        last = slot
        if batch and (batch_rows + slot.rows > rows or len(batch) == MAX_SLOTS):
            yield batch
            batch, batch_rows = [], 0
        batch.append((job, slot))
        batch_rows += slot.rows
    if batch:
        yield batch
