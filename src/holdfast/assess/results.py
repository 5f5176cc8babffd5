"""The folder of a campaign: what it is, what golden runs gave, and every outcome so far.

Each file is written whole under another name and then renamed, so that a process killed at any moment leaves nothing half
written. Outcomes come in files of one batch each; a trial that stands in one of them is done.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Trial
from holdfast.assess.outcome import Outcome
from holdfast.errors import HoldfastError


class Results:
    """The results of one campaign in a folder; opening a folder that belongs to another campaign is an error."""

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self.folder, self.campaign = folder, campaign
        self._outcomes = folder / "outcomes"
        named = folder / "campaign.json"
        if named.exists():
            _require_same(named, campaign)
        elif folder.exists() and any(folder.iterdir()):
            raise HoldfastError(f"folder '{folder}' holds something that is no campaign; give a new or an empty one")
        self._outcomes.mkdir(parents=True, exist_ok=True)
        if not named.exists():
            _write(named, json.dumps(campaign.document(), indent=2))

    def done(self) -> set[Trial]:
        """The trials that have an outcome."""
        return {trial for trial, _ in self._lines()}

    def outcomes(self, *, whole: Callable[[Trial], bool] = lambda trial: True) -> dict[Trial, Outcome]:
        """Every outcome; of trials that are not wanted whole only the totals are held, whatever their number of sections."""
        found = {}
        for trial, document in self._lines():
            outcome = Outcome.of(document)
            found[trial] = outcome if whole(trial) else outcome.condensed()
        return found

    def add(self, outcomes: Iterable[tuple[Trial, Outcome]]) -> None:
        """Keep a batch of outcomes: all of them, or, if the process dies, none."""
        lines = [json.dumps({"trial": _plain(trial), **outcome.document()}) for trial, outcome in outcomes]
        number = sum(1 for _ in self._outcomes.glob("*.jsonl"))
        while (path := self._outcomes / f"{number:06d}.jsonl").exists():
            number += 1
        _write(path, "\n".join(lines) + "\n")

    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return bool(self.read("golden") and self.read("facts")) and len(self.done()) == self.campaign.size

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        _write(self.folder / f"{name}.json", json.dumps(document))

    def read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _lines(self) -> Iterable[tuple[Trial, dict[str, Any]]]:
        for path in sorted(self._outcomes.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                document = json.loads(line)
                case, offset, outage_s, pace, repetition = document.pop("trial")
                yield Trial(case, offset, outage_s, pace, repetition), document


def read_campaign(folder: Path) -> Campaign:
    """The campaign whose results a folder holds."""
    path = folder / "campaign.json"
    if not path.exists():
        raise HoldfastError(f"folder '{folder}' holds no campaign: it has no campaign.json")
    return Campaign.of(json.loads(path.read_text()))


def _require_same(named: Path, campaign: Campaign) -> None:
    there, here = json.loads(named.read_text()), campaign.document()
    if there == here:
        return
    differs = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
    shown = "; ".join(f"its {name} {_short(there.get(name))}, now {_short(here.get(name))}" for name in differs[:3])
    raise HoldfastError(
        f"folder '{named.parent}' holds the results of another campaign: {shown}; give another folder, or the same campaign to "
        "resume it"
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(trial: Trial) -> list[Any]:
    return [trial.case, trial.offset, trial.outage_s, trial.pace, trial.repetition]


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
