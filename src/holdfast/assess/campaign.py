"""A campaign: cases x offsets x outages x rates x repetitions (DEBS'11, section 6.2)."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.assess.arrival_jitter import FURTHEST_JITTER
from holdfast.assess.case import Case, Pace, Trial
from holdfast.assess.damage import CRITICAL, SMALL
from holdfast.assess.metrics import PERCENTILE, THRESHOLD
from holdfast.documents.fault import StreamFault, fault_from_document
from holdfast.errors import CompoundError, HoldfastError

OUTAGES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PACES: tuple[Pace, ...] = ("average", "peak")


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The trials to run on one application and one trace.

    Offsets count source tuples. Outages are seconds; each target's average and peak rate converts them to tuples. `subject`
    identifies the application and the trace. `fault` is the fault of every trial, without the target, offset and tuples, which the
    trial adds.
    """

    subject: Mapping[str, Any]
    cases: tuple[Case, ...]
    offsets: tuple[int, ...]
    outages_s: tuple[float, ...] = OUTAGES_S
    paces: tuple[Pace, ...] = PACES
    repetitions: int = 5
    golden_runs: int = 5
    scores: tuple[str, ...] = ()
    sink: str = ""
    fault: Mapping[str, Any] = field(default_factory=lambda: {"kind": "loss"})
    section: int = 5000
    threshold: float = THRESHOLD
    percentile: float = PERCENTILE
    critical: float = CRITICAL
    small: float = SMALL
    jitter: int = 8
    seed: int = 1
    affected: int | None = None

    def __post_init__(self) -> None:
        errors = [
            f"needs at least one of its {what}, got none"
            for what in ("cases", "offsets", "outages_s", "paces", "scores")
            if not getattr(self, what)
        ]
        errors += [f"an offset counts source tuples from 0, got {offset}" for offset in self.offsets if offset < 0]
        errors += [f"an outage lasts more than 0 seconds, got {outage:g}" for outage in self.outages_s if not 0 < outage < math.inf]
        errors += [f"a rate is 'average' or 'peak', got '{pace}'" for pace in self.paces if pace not in PACES]
        errors += [] if self.repetitions >= 1 else [f"repetitions must be at least 1, got {self.repetitions}"]
        if self.golden_runs < self.repetitions:
            errors.append(f"there must be at least as many golden runs as repetitions ({self.repetitions}), got {self.golden_runs}")
        errors += [] if self.section >= 1 else [f"a section has at least 1 seq, got {self.section}"]
        errors += [] if 0 < self.percentile <= 1 else [f"the percentile lies above 0 and up to 1, got {self.percentile:g}"]
        if not 0 < self.threshold < math.inf:
            errors.append(f"the threshold is a relative error above 0, such as 0.03, got {self.threshold:g}")
        errors += [
            f"{name} is a share from 0 to 1, got {share:g}"
            for name, share in (("critical", self.critical), ("small", self.small))
            if not 0 <= share <= 1
        ]
        if not 0 <= self.jitter <= FURTHEST_JITTER:
            errors.append(f"arrival order can be jittered by 0 to {FURTHEST_JITTER} tuples, got {self.jitter}")
        errors += [] if self.seed >= 0 else [f"the seed must not be negative, got {self.seed}"]
        if self.affected is not None and self.affected < 1:
            errors.append(f"a fault affects at least 1 source tuple, got {self.affected}")
        try:
            fault = fault_from_document({**self.fault, "target": ("any",), "offset": 0, "tuples": 1})
        except HoldfastError as error:
            errors.append(str(error))
        else:
            errors += [
                f"the fault affects the {fault.side} of its targets, but the case '{case.name}' loses its {case.side}"
                for case in self.cases
                if case.failover_s is None and case.side != fault.side
            ]
        for what, values in (
            ("target", tuple(case.name for case in self.cases)),
            ("offset", self.offsets),
            ("outage", self.outages_s),
            ("rate", self.paces),
            ("score", self.scores),
        ):
            errors += [f"the {what} '{value}' is given twice" for value in dict.fromkeys(values) if values.count(value) > 1]
        if errors:
            raise CompoundError("the campaign", errors)

    @property
    def size(self) -> int:
        return len(self.cases) * len(self.offsets) * len(self.outages_s) * len(self.paces) * self.repetitions

    def trials(self) -> Iterator[Trial]:
        """Yield every trial, case by case."""
        for case in self.cases:
            for offset in self.offsets:
                for outage_s in self.outages_s:
                    for pace in self.paces:
                        for repetition in range(self.repetitions):
                            yield Trial(case.name, offset, outage_s, pace, repetition)

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def fault_for(self, case: Case, *, offset: int, tuples: int) -> StreamFault:
        """Return the fault that a trial injects."""
        return fault_from_document(
            {**self.fault, "target": case.target, "offset": offset, "tuples": tuples, "side": case.side, "seed": self.seed}
        )

    def seed_of(self, run: int) -> int:
        """Return the seed of the arrival order of a repetition or golden run."""
        return self.seed * 1_000 + run

    def document(self) -> dict[str, Any]:
        """Return the campaign as plain values, for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.loads(json.dumps(plain | {"cases": [_plain(case) for case in self.cases]}))  # type: ignore[no-any-return]  # a dict stays a dict

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Campaign":
        """Return the campaign that a document describes: the inverse of `document()`."""
        missing = sorted(set(cls.__dataclass_fields__) - set(document))
        unknown = sorted(set(document) - set(cls.__dataclass_fields__))
        if missing or unknown:
            what = f"has no '{missing[0]}'" if missing else f"has an unknown '{unknown[0]}'"
            raise HoldfastError(f"the campaign document {what}; it was written by another version")
        lists = {name: tuple(document[name]) for name in ("offsets", "outages_s", "paces", "scores")}
        side = document["fault"].get("side", "input")
        cases = tuple(Case(tuple(target), failover_s, side, *at_once) for target, failover_s, *at_once in document["cases"])
        return cls(**dict(document) | lists | {"cases": cases})

    @property
    def identity(self) -> str:
        """A short hash that identifies the campaign."""
        text = json.dumps(self.document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(case: Case) -> list[Any]:
    """Return a case as plain values. The campaign's fault has the side, so the case does not repeat it."""
    return [list(case.target), case.failover_s, *([True] if case.at_once else [])]
