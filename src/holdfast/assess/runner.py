"""Running a campaign: golden runs, then every trial that has no outcome yet, batch by batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Literal

from holdfast.assess.batched import LANES, ROWS, FastWay, Lane, obstacle
from holdfast.assess.batched_check import disagreement, one_of_each
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_fit import Rates, require_places, tempo_of, unchangeable
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case, Places, Tempo, Trial, astray, outage_name
from holdfast.assess.fault_reach import FaultPath, GoldenIndex, Reach, course_of, reach_of
from holdfast.assess.golden_runs import Golden, load_golden, run_golden, save_golden
from holdfast.assess.injection import Strike
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.parallel_work import side_by_side
from holdfast.assess.progress import Progress, Steps, silent
from holdfast.assess.whole_trace_trial import run_slow
from holdfast.documents.fault import Divergence, Reordering
from holdfast.errors import CompoundError, HoldfastError

Way = Literal["auto", "fast", "slow"]
HELD = 8
"""Golden runs in memory at a time, however many repetitions there are."""


@dataclass(frozen=True)
class Job:
    """Trials that one injection answers: they strike the same seqs under the same arrival order."""

    case: Case
    strike: Strike
    run: int
    trials: tuple[Trial, ...]


Work = Callable[[], list[tuple[Job, TrialOutcome]]]


class Runner:
    """A campaign on its setting. `apart` says, by the case, why its trials do not share jobs, where they do not."""

    def __init__(
        self,
        setting: CampaignContext,
        campaign: Campaign,
        *,
        way: Way = "auto",
        verify: bool = True,
        rows: int = ROWS,
        rates: Rates | None = None,
        progress: Progress = silent,
    ) -> None:
        """`rates` are those of PEs and sources where they are known already; the others are measured on the trace."""
        self.setting, self.campaign = setting, campaign
        self._rates = dict(rates or {})
        self._batch_rows = rows
        graph = setting.graph
        fault = campaign.fault_for(campaign.cases[0], offset=0, tuples=1)
        self.courses: Mapping[str, FaultPath] = {
            case.name: course_of(graph, setting.shapes, campaign.fault_for(case, offset=0, tuples=1), setting.sink)
            for case in campaign.cases
        }
        errors = astray(graph, campaign.cases, setting.sink)
        if isinstance(fault, Divergence):
            errors += unchangeable(setting, campaign.cases)
        if errors:
            raise CompoundError("the campaign", errors)
        whole = "it was asked for" if way == "slow" else None
        if whole is None and isinstance(fault, Reordering):
            whole = "tuples that change places change which key a seq belongs to"
        found = {name: whole or obstacle(setting, course) for name, course in self.courses.items()}
        self.apart = {name: why for name, why in found.items() if why}
        shared = [case for case in campaign.cases if case.name not in self.apart]
        compared = one_of_each(shared, self.courses) if verify else []
        steps = Steps(progress, "preparing", of=1 + (1 + len(compared) if compared else 0))
        if compared and (why := disagreement(setting, campaign, self.courses, cases=compared, step=steps.done)):
            self.apart = dict.fromkeys(self.courses, why)
        if way == "fast" and self.apart:
            case, why = next(iter(self.apart.items()))
            raise HoldfastError(f"trials of {case} cannot share Spark jobs: {why}; leave --way out to run each of them by itself")
        self.places, self.ground = self._measured()
        steps.end()

    @property
    def why_slow(self) -> str | None:
        """Why no trials share jobs; None where some do."""
        return next(iter(self.apart.values())) if len(self.apart) == len(self.courses) else None

    def tuples(self, case: Case, outage_s: float, pace: Any) -> int:
        """An outage in tuples of a target, at its own rate."""
        return case.tuples(outage_s, self.tempo(case).at(pace))

    def tempo(self, case: Case) -> Tempo:
        """The rate at which a case loses tuples."""
        return tempo_of(self.setting, self.places, case, self._rates)

    def strike(self, trial: Trial) -> Strike:
        case = self.campaign.case(trial.case)
        tuples = self.tuples(case, trial.outage_s, trial.pace)
        first, last = self.places.strike(self.setting.graph, case, offset=trial.offset, tuples=tuples)
        return Strike(self.campaign.fault_for(case, offset=trial.offset, tuples=tuples), first, last)

    def run(self, results: Results, *, parallel: int = 2, progress: Progress = silent) -> None:
        """Run what has no outcome yet. Interrupted at any time, it goes on where it stopped when called again."""
        done = results.done()
        trials = list(self.campaign.trials())
        require_places(self.setting, self.campaign, self._rates)
        left = [trial for trial in trials if trial not in done]
        self._golden(results, progress=progress)
        if not left:
            return
        golden = lru_cache(HELD)(partial(self._golden_run, results))
        count = len(trials) - len(left)
        progress("trials", count, len(trials))
        for finished in side_by_side(self._work(left, golden), parallel):
            results.add([(trial, outcome) for job, outcome in finished for trial in job.trials])
            count += sum(len(job.trials) for job, _ in finished)
            progress("trials", count, len(trials))
        self.setting.release()

    def _measured(self) -> tuple[Places, GoldenIndex | None]:
        setting, campaign = self.setting, self.campaign
        streams = {stream for case in campaign.cases for stream in setting.struck(case)}
        keyed = not isinstance(setting.keying, str)
        if keyed:
            streams |= {stream for stream, _ in setting.kept_streams()}
            streams |= {stream for course in self.courses.values() for stream in course.cut}
        seqs = setting.stream_seqs(streams)
        return setting.places(campaign.cases, seqs), setting.ground(seqs) if keyed else None

    def _runs(self) -> int:
        return 1 if self.setting.deterministic else self.campaign.golden_runs

    def _run_of(self, trial: Trial) -> int:
        """The golden run that a trial is told from."""
        return 0 if self.setting.deterministic else trial.repetition

    def _golden(self, results: Results, *, progress: Progress) -> None:
        """Make every golden run, and write down what the report needs of them."""
        facts = results.read("facts")
        if results.read("golden") is not None and facts is not None:
            if facts.get("origin", 0) != self.setting.cut.origin:
                raise HoldfastError(f"the results in folder '{results.folder}' are of an earlier version; give another folder")
            return
        runs = self._runs()
        progress("golden runs", 0, runs)
        parts: list[dict[str, list[float]]] = []
        affected: dict[str, dict[str, list[dict[str, float]]]] = {case.name: {} for case in self.campaign.cases}
        reaches = {} if self.ground is None or self.campaign.affected else self._widest()
        for run in range(runs):
            golden = self._golden_run(results, run)
            parts.append({part: values.tolist() for part, values in golden.parts.items()})
            for (case, offset), reach in reaches.items():
                if golden.outputs is not None:
                    sums = golden.outputs.within(reach, self.setting.cut)[1]
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
            additive = all(score.additive for score in self.setting.scores)
            outputs = self.ground is not None and additive
            save_golden(run_golden(self.setting, self.campaign.seed_of(run), outputs=outputs), path)
        return load_golden(path)

    def _widest(self) -> dict[tuple[str, int], Reach]:
        """For each case and offset how far the longest outage reaches: the affected section of Eq. 1 and 2."""
        assert self.ground is not None
        found = {}
        longest = max(self.campaign.outages_s)
        for case in self.campaign.cases:
            pace = max(self.campaign.paces, key=lambda pace: self.tuples(case, longest, pace))
            for offset in self.campaign.offsets:
                strike = self.strike(Trial(case.name, offset, longest, pace, 0))
                course = self.courses[case.name]
                found[case.name, offset] = reach_of(self.ground, course, strike.first, strike.last, sink=self.setting.sink)
        return found

    def _facts(self, affected: Mapping[str, Any]) -> dict[str, Any]:
        """What the report says beside outcomes: rates, outages in tuples, where offsets lie, and how it was run."""
        campaign, setting = self.campaign, self.setting
        known = all(len(runs) == self._runs() for case in affected.values() for runs in case.values())
        rates = {case.name: self.tempo(case) for case in campaign.cases}
        return {
            "sections": setting.cut.count,
            "origin": setting.cut.origin,
            "deterministic": setting.deterministic,
            "why_slow": self.why_slow,
            "apart": {} if self.why_slow else self.apart,
            "source": {
                "tuples": len(setting.rows.seq),
                "seqs": setting.span[1],
                "average": setting.rows.tempo.average,
                "peak": setting.rows.tempo.peak,
            },
            "rates": {name: {"average": tempo.average, "peak": tempo.peak} for name, tempo in rates.items()},
            "tuples": {
                case.name: {outage_name(o, p): self.tuples(case, o, p) for o in campaign.outages_s for p in campaign.paces}
                for case in campaign.cases
            },
            "firsts": {str(offset): int(self.places.source[offset]) for offset in campaign.offsets},
            "lasts": {str(offset): self.places.last(offset, campaign.affected) for offset in campaign.offsets if campaign.affected},
            "affected": affected if known and any(affected.values()) else None,
        }

    def _jobs(self, trials: Sequence[Trial]) -> Iterator[Job]:
        """Trials that are alike as one job each, in the order of cases and offsets."""
        for (case, _), alike in groupby(trials, key=lambda trial: (trial.case, trial.offset)):
            jobs: dict[tuple[int, int, int], list[Trial]] = {}
            strikes: dict[tuple[int, int, int], Strike] = {}
            for trial in alike:
                strike = self.strike(trial)
                place = (strike.first, strike.last, self._run_of(trial))
                strikes.setdefault(place, strike)
                jobs.setdefault(place, []).append(trial)
            for place, same in jobs.items():
                yield Job(self.campaign.case(case), strikes[place], place[2], tuple(same))

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
        assert self.ground is not None
        way = FastWay(self.setting, self.ground)
        for course, jobs in groupby(self._jobs(trials), key=lambda job: self.courses[job.case.name]):
            for batch in _batched(jobs, way, course, seed_of=self.campaign.seed_of, rows=self._batch_rows):

                def work(batch: list[tuple[Job, Lane]] = batch, course: FaultPath = course) -> list[tuple[Job, TrialOutcome]]:
                    runs = {lane.seed: golden(job.run) for job, lane in batch}
                    outcomes = way.run(course, [lane for _, lane in batch], runs)
                    return [(job, outcome) for (job, _), outcome in zip(batch, outcomes, strict=True)]

                yield work

    def _alone(self, trials: Sequence[Trial], golden: Callable[[int], Golden]) -> Iterator[Work]:
        for job in self._jobs(trials):
            yield partial(self._run_alone, job, golden)

    def _run_alone(self, job: Job, golden: Callable[[int], Golden]) -> list[tuple[Job, TrialOutcome]]:
        return [(job, run_slow(self.setting, job.strike, golden(job.run)))]


def _batched(
    jobs: Iterator[Job], way: FastWay, course: FaultPath, *, seed_of: Callable[[int], int], rows: int
) -> Iterator[list[tuple[Job, Lane]]]:
    """Jobs with their lanes, together as long as the bounds on rows and lanes allow. Repetitions share a reach."""
    batch: list[tuple[Job, Lane]] = []
    held, last = 0, None
    for job in jobs:
        same = last is not None and (last.strike.first, last.strike.last) == (job.strike.first, job.strike.last)
        lane = replace(last, seed=seed_of(job.run)) if same and last else way.lane(course, job.strike, seed_of(job.run))
        last = lane
        if batch and (held + lane.rows > rows or len(batch) == LANES):
            yield batch
            batch, held = [], 0
        batch.append((job, lane))
        held += lane.rows
    if batch:
        yield batch
