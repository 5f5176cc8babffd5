"""Running a campaign: golden runs, then every trial that has no outcome yet, batch by batch."""

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
HELD = 8
"""Golden runs in memory at a time, however many repetitions there are."""


@dataclass(frozen=True)
class Job:
    """Trials that one injection answers: they strike the same seqs under the same arrival order."""

    case: Case
    injection: Injection
    run: int
    trials: tuple[Trial, ...]


Work = Callable[[], list[tuple[Job, TrialOutcome]]]


class Runner:
    """A campaign on its context. `apart` says, by the case, why its trials do not share jobs, where they do not."""

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
        """`rates` are those of PEs and sources where they are known already; the others are measured on the trace."""
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
        whole = "it was asked for" if way == "slow" else None
        if whole is None and isinstance(fault, Reordering):
            whole = "tuples that change locator change which key a seq belongs to"
        found = {name: whole or obstacle(context, fault_path) for name, fault_path in self.fault_paths.items()}
        self.apart = {name: why for name, why in found.items() if why}
        shared = [case for case in campaign.cases if case.name not in self.apart]
        compared = one_case_per_path(shared, self.fault_paths) if verify else []
        steps = Steps(progress, "preparing", of=1 + (1 + len(compared) if compared else 0))
        if compared and (why := find_disagreement(context, campaign, self.fault_paths, cases=compared, step=steps.done)):
            self.apart = dict.fromkeys(self.fault_paths, why)
        if way == "fast" and self.apart:
            case, why = next(iter(self.apart.items()))
            raise HoldfastError(f"trials of {case} cannot share Spark jobs: {why}; leave --way out to run each of them by itself")
        self.locator, self.golden_index = self._measured()
        steps.end()

    @property
    def why_slow(self) -> str | None:
        """Why no trials share jobs; None where some do."""
        return next(iter(self.apart.values())) if len(self.apart) == len(self.fault_paths) else None

    def tuples(self, case: Case, outage_s: float, pace: Any) -> int:
        """An outage in tuples of a target, at its own rate."""
        return case.tuples(outage_s, self.tempo(case).at(pace))

    def tempo(self, case: Case) -> Tempo:
        """The rate at which a case loses tuples."""
        return case_tempo(self.context, self.locator, case, self._rates)

    def injection_of(self, trial: Trial) -> Injection:
        case = self.campaign.case(trial.case)
        tuples = self.tuples(case, trial.outage_s, trial.pace)
        first, last = self.locator.locate(self.context.graph, case, offset=trial.offset, tuples=tuples)
        return Injection(self.campaign.fault_for(case, offset=trial.offset, tuples=tuples), first, last)

    def run(self, results: Results, *, parallel: int = 2, progress: Progress = silent) -> None:
        """Run what has no outcome yet. Interrupted at any time, it goes on where it stopped when called again."""
        done = results.done()
        trials = list(self.campaign.trials())
        require_room_for_outages(self.context, self.campaign, self._rates)
        left = [trial for trial in trials if trial not in done]
        self._golden(results, progress=progress)
        if not left:
            return
        golden = lru_cache(HELD)(partial(self._golden_run, results))
        count = len(trials) - len(left)
        progress("trials", count, len(trials))
        for finished in run_parallel(self._work(left, golden), parallel):
            results.add([(trial, outcome) for job, outcome in finished for trial in job.trials])
            count += sum(len(job.trials) for job, _ in finished)
            progress("trials", count, len(trials))
        self.context.release()

    def _measured(self) -> tuple[OutageLocator, GoldenIndex | None]:
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
        """The golden run that a trial is told from."""
        return 0 if self.context.deterministic else trial.repetition

    def _golden(self, results: Results, *, progress: Progress) -> None:
        """Make every golden run, and write down what the report needs of them."""
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
        """A golden run as it was written down; made where it was not yet."""
        path = results.folder / "golden" / f"{run}.npz"
        if not path.exists():
            additive = all(score.additive for score in self.context.scores)
            outputs = self.golden_index is not None and additive
            save_golden(run_golden(self.context, self.campaign.seed_of(run), outputs=outputs), path)
        return load_golden(path)

    def _widest(self) -> dict[tuple[str, int], Reach]:
        """For each case and offset how far the longest outage reaches: the affected section of Eq. 1 and 2."""
        assert self.golden_index is not None
        found = {}
        longest = max(self.campaign.outages_s)
        for case in self.campaign.cases:
            pace = max(self.campaign.paces, key=lambda pace: self.tuples(case, longest, pace))
            for offset in self.campaign.offsets:
                injection = self.injection_of(Trial(case.name, offset, longest, pace, 0))
                fault_path = self.fault_paths[case.name]
                found[case.name, offset] = reach_of(
                    self.golden_index, fault_path, injection.first, injection.last, sink=self.context.sink
                )
        return found

    def _facts(self, affected: Mapping[str, Any]) -> dict[str, Any]:
        """What the report says beside outcomes: rates, outages in tuples, where offsets lie, and how it was run."""
        campaign, context = self.campaign, self.context
        known = all(len(runs) == self._runs() for case in affected.values() for runs in case.values())
        rates = {case.name: self.tempo(case) for case in campaign.cases}
        return {
            "sections": context.sections.count,
            "origin": context.sections.origin,
            "deterministic": context.deterministic,
            "why_slow": self.why_slow,
            "apart": {} if self.why_slow else self.apart,
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
        """Trials that are alike as one job each, in the order of cases and offsets."""
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
        """Pieces of work, made when they are asked for: memory holds those under way and no more.

        Repetitions come HELD golden runs at a time, so that no more of these are in memory either.
        """

        def part(trial: Trial) -> int:
            return self._run_of(trial) // HELD

        for _, some in groupby(sorted(trials, key=part), key=part):
            trials = list(some)
            yield from self._together([trial for trial in trials if trial.case not in self.apart], golden)
            yield from self._alone([trial for trial in trials if trial.case in self.apart], golden)

    def _together(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        if not trials:
            return
        assert self.golden_index is not None
        way = BatchedRunner(self.context, self.golden_index)
        for fault_path, jobs in groupby(self._jobs(trials), key=lambda job: self.fault_paths[job.case.name]):
            for batch in _batched(jobs, way, fault_path, seed_of=self.campaign.seed_of, rows=self._batch_rows):

                def work(
                    batch: list[tuple[Job, Slot]] = batch, fault_path: FaultPath = fault_path
                ) -> list[tuple[Job, TrialOutcome]]:
                    runs = {slot.seed: golden(job.run) for job, slot in batch}
                    outcomes = way.run(fault_path, [slot for _, slot in batch], runs)
                    return [(job, outcome) for (job, _), outcome in zip(batch, outcomes, strict=True)]

                yield work

    def _alone(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        for job in self._jobs(trials):
            yield partial(self._run_alone, job, golden)

    def _run_alone(self, job: Job, golden: Callable[[int], Golden]) -> list[tuple[Job, TrialOutcome]]:
        return [(job, run_whole_trace(self.context, job.injection, golden(job.run)))]


def _batched(
    jobs: Iterator[Job], way: BatchedRunner, fault_path: FaultPath, *, seed_of: Callable[[int], int], rows: int
) -> Iterator[list[tuple[Job, Slot]]]:
    """Jobs with their slots, together as long as the bounds on rows and slots allow. Repetitions share a reach."""
    batch: list[tuple[Job, Slot]] = []
    held, last = 0, None
    for job in jobs:
        same = last is not None and (last.injection.first, last.injection.last) == (job.injection.first, job.injection.last)
        slot = replace(last, seed=seed_of(job.run)) if same and last else way.slot(fault_path, job.injection, seed_of(job.run))
        last = slot
        if batch and (held + slot.rows > rows or len(batch) == MAX_SLOTS):
            yield batch
            batch, held = [], 0
        batch.append((job, slot))
        held += slot.rows
    if batch:
        yield batch
