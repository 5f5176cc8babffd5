"""What came of a trial: how the parts of its score differ from the golden run of the same seed, section by section."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.assess.keyed_seqs import Floats, Ints

NOISE = 1e-9
"""Differences below this share of a section's value are the order of summation and nothing else."""


@dataclass(frozen=True)
class TrialOutcome:
    """The sections in which a trial's output differs from golden, and by how much each part of the score does."""

    sections: Ints
    differences: Mapping[str, Floats]

    def total(self, part: str) -> float:
        return float(self.differences[part].sum())

    def applied(self, golden: Mapping[str, Floats]) -> dict[str, Floats]:
        """The parts of the faulty run. A section without a score that has one under the fault counted as zero before."""
        faulty = {}
        for part, values in golden.items():
            changed, apart = values.copy(), self.differences[part]
            at = self.sections[apart != 0.0]  # where nothing differs, what has no rows goes on having none
            changed[at] = np.nan_to_num(changed[at]) + apart[apart != 0.0]
            faulty[part] = changed
        return faulty

    def document(self) -> dict[str, Any]:
        return {
            "sections": self.sections.tolist(),
            "differences": {part: values.tolist() for part, values in self.differences.items()},
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "TrialOutcome":
        """The outcome that a document describes: the inverse of `document()`; ValueError, KeyError or TypeError for others."""
        sections = np.array(document["sections"], np.int64)
        differences = {part: np.array(values, np.float64) for part, values in document["differences"].items()}
        if any(values.shape != sections.shape for values in differences.values()) or sections.ndim != 1:
            raise ValueError("every section needs one difference of each part")
        return cls(sections, differences)


def difference(faulty: Mapping[str, Floats], golden: Mapping[str, Floats]) -> TrialOutcome:
    """The outcome of a trial from all sections of its output and of golden's.

    >>> difference({"n": np.array([1.0, 2.0])}, {"n": np.array([1.0, 5.0])}).differences["n"].tolist()
    [-3.0]
    """
    changed = {part: faulty[part] - golden[part] for part in golden}
    differs = np.zeros(len(next(iter(golden.values()))), bool)
    for part, values in changed.items():
        appeared = np.isnan(faulty[part]) != np.isnan(golden[part])
        changed[part] = np.where(np.isnan(values), 0.0, values)
        size = np.nan_to_num(np.abs(golden[part])) + np.nan_to_num(np.abs(faulty[part]))
        small = np.abs(changed[part]) <= NOISE * size
        changed[part] = np.where(small, 0.0, changed[part])
        if appeared.any():  # a section that gained or lost all its rows: a score that does not add up counts it as zero
            changed[part] = np.where(appeared, np.nan_to_num(faulty[part]) - np.nan_to_num(golden[part]), changed[part])
        differs |= changed[part] != 0.0
    sections = np.flatnonzero(differs)
    return TrialOutcome(sections, {part: values[sections] for part, values in changed.items()})
