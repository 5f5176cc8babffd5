"""The outcome of a trial: how the parts of its score differ from the golden run of the same seed, per section."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.assess.keyed_seqs import Floats, Ints

NOISE = 1e-9
"""Differences below this share of a section's value come from the order of summation."""


@dataclass(frozen=True)
class TrialOutcome:
    """The sections in which a trial's output differs from the golden run, and the difference of each part of the score."""

    sections: Ints
    differences: Mapping[str, Floats]

    def total(self, part: str) -> float:
        return float(self.differences[part].sum())

    def applied(self, golden: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return the score parts of the faulty run. A golden section without rows counts as zero where the fault adds rows."""
        faulty = {}
        for part, values in golden.items():
            changed, apart = values.copy(), self.differences[part]
            at = self.sections[apart != 0.0]  # a section without a difference stays empty (nan)
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
        """Return the outcome that a document describes: the inverse of `document()`.

        Raises ValueError, KeyError or TypeError for another document.
        """
        sections = np.array(document["sections"], np.int64)
        differences = {part: np.array(values, np.float64) for part, values in document["differences"].items()}
        if any(values.shape != sections.shape for values in differences.values()) or sections.ndim != 1:
            raise ValueError("every section needs one difference of each part")
        return cls(sections, differences)


def difference(faulty: Mapping[str, Floats], golden: Mapping[str, Floats]) -> TrialOutcome:
    """Return the outcome of a trial, given the score parts of all sections of its output and of the golden run.

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
        if appeared.any():  # a section that gained or lost all its rows counts as zero
            changed[part] = np.where(appeared, np.nan_to_num(faulty[part]) - np.nan_to_num(golden[part]), changed[part])
        differs |= changed[part] != 0.0
    sections = np.flatnonzero(differs)
    return TrialOutcome(sections, {part: values[sections] for part, values in changed.items()})
