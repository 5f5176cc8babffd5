"""The folder of a campaign: what it is, what golden runs gave, and every outcome so far.

Each file is written whole under another name and then renamed, so that a process killed at any moment leaves nothing half
written. Outcomes come in files of one batch each; a trial that stands in one of them is done. While a campaign runs its folder
is locked; the lock ends with the process, however that ends.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Trial
from holdfast.assess.files import read_json, write_whole, writing
from holdfast.assess.outcome import Outcome
from holdfast.errors import HoldfastError


class Results:
    """The results of one campaign in a folder; opening a folder that holds those of another campaign is an error."""

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self.folder, self.campaign = folder, campaign
        self._outcomes, self._named = folder / "outcomes", folder / "campaign.json"
        if folder.exists() and not folder.is_dir():
            raise HoldfastError(f"'{folder}' is a file; results need a folder: give another --out")
        if not self._named.exists() and folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise HoldfastError(f"folder '{folder}' holds something that is no campaign; give a new or an empty one")
        self._take(taken=self._begun() or self._busy())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running the same campaign meanwhile; HoldfastError where one does."""
        with writing(self._lock):
            file = self._lock.open("a")
        with file:
            if not _lock(file):
                raise HoldfastError(
                    f"another process is running a campaign in folder '{self.folder}'; wait until it ends, or give another folder"
                )
            self._take(taken=self._begun())  # another process may have been here between opening and locking
            yield

    def done(self) -> set[Trial]:
        """The trials that have an outcome."""
        return {trial for trial, _ in self._lines()}

    def outcomes(self) -> Iterator[tuple[Trial, Outcome]]:
        """Every trial that is done with its outcome, read one after the other: they need not fit into memory together."""
        for trial, document in self._lines():
            yield trial, Outcome.of(document)

    def add(self, outcomes: Iterable[tuple[Trial, Outcome]]) -> None:
        """Keep a batch of outcomes: all of them, or, if the process dies, none."""
        lines = [json.dumps({"trial": _plain(trial), **outcome.document()}) for trial, outcome in outcomes]
        write_whole(self._outcomes / f"{next(self._numbers):06d}.jsonl", "\n".join(lines) + "\n")

    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return bool(self.read("golden") and self.read("facts")) and len(self.done()) == self.campaign.size

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{name}.json", json.dumps(document))

    def read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / f"{name}.json"
        return read_json(path) if path.exists() else None

    def _take(self, *, taken: bool) -> None:
        """Make the folder this campaign's, and number its next file after those that are there."""
        if self._named.exists():
            _require_same(self._named, self.campaign, taken=taken)
        if not self._named.exists() or read_json(self._named) != self.campaign.document():
            write_whole(self._named, json.dumps(self.campaign.document(), indent=2))
        self._numbers = count(1 + max((int(path.stem) for path in self._files()), default=-1))

    def _begun(self) -> bool:
        """Whether anything was found out yet: a folder in which nothing was may become another campaign's."""
        return any(self._files()) or any((self.folder / "golden").glob("*.npz"))

    def _busy(self) -> bool:
        """Whether another process is at work here."""
        if not self._lock.exists():
            return False
        with self._lock.open("a") as file:
            return not _lock(file)

    @property
    def _lock(self) -> Path:
        return self.folder / ".lock"

    def _files(self) -> list[Path]:
        return sorted(path for path in self._outcomes.glob("*.jsonl") if path.stem.isdigit())

    def _lines(self) -> Iterator[tuple[Trial, dict[str, Any]]]:
        for path in self._files():
            with path.open() as file:
                for number, line in enumerate(file, start=1):
                    try:
                        document = json.loads(line)
                        case, offset, outage_s, pace, repetition = document.pop("trial")
                    except (ValueError, KeyError, TypeError, AttributeError) as error:
                        raise HoldfastError(
                            f"results file '{path}' is damaged in line {number}; remove it, and its trials are run again"
                        ) from error
                    yield Trial(case, offset, outage_s, pace, repetition), document


def read_campaign(folder: Path) -> Campaign:
    """The campaign whose results a folder holds."""
    path = folder / "campaign.json"
    if not path.exists():
        raise HoldfastError(f"folder '{folder}' holds no campaign: it has no campaign.json")
    return Campaign.of(read_json(path))


def _require_same(named: Path, campaign: Campaign, *, taken: bool) -> None:
    there, here = read_json(named), campaign.document()
    if there == here or not taken:
        return
    differs = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
    shown = "; ".join(f"its {name} {_short(there.get(name))}, now {_short(here.get(name))}" for name in differs[:3])
    raise HoldfastError(
        f"folder '{named.parent}' holds the results of another campaign: {shown}; give another folder, or the same campaign to "
        "resume it"
    )


def _lock(file: IO[str]) -> bool:
    """Take the lock on a file, which ends when the file is closed; False where somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(trial: Trial) -> list[Any]:
    return [trial.case, trial.offset, trial.outage_s, trial.pace, trial.repetition]
