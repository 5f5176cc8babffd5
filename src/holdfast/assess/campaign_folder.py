"""The folder of a campaign: what it is, what golden runs gave, and every outcome so far.

Each file is written whole under another name and then renamed, so that a process killed at any moment leaves nothing half
written. Outcomes come in files of one batch each; a trial that stands in one of them is done. While a campaign runs its folder
is locked; the lock ends with the process, however that ends.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import IO, Any

from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_facts import require_shape
from holdfast.assess.case import Trial
from holdfast.assess.outcome import TrialOutcome
from holdfast.documents.whole_files import read_json, write_whole, writing
from holdfast.errors import HoldfastError


class Results:
    """The results of one campaign in a folder; opening a folder that holds those of another campaign is an error."""

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self.folder, self.campaign = folder, campaign
        self._outcomes, self._named = folder / "outcomes", folder / "campaign.json"
        require_room(folder)
        self._made = not folder.exists()
        self._known: tuple[list[Path], list[_Place]] | None = None
        self._take(taken=begun(folder) or self._busy())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running the same campaign meanwhile; HoldfastError where one does.

        A campaign that is refused before anything was found out leaves nothing behind.
        """
        with writing(self._lock):
            file = self._lock.open("a")
        with file:
            if not (_lock(file) and _is_at(self._lock, file)):  # one that was given back meanwhile is nobody's
                raise HoldfastError(
                    f"another process is running a campaign in folder '{self.folder}'; wait until it ends, or give another folder"
                )
            self._take(taken=begun(self.folder))  # another process may have been here between opening and locking
            for part in self.folder.rglob(".*.part"):  # what a process that was killed had half written
                part.unlink()
            try:
                yield
            except HoldfastError:
                self._leave()
                raise

    def done(self) -> set[Trial]:
        """The trials that have an outcome."""
        return {place.trial for place in self._places()}

    def outcomes(self) -> Iterator[tuple[Trial, TrialOutcome]]:
        """Every trial with its outcome, in the order of trials: what is made of them does not depend on which of them was ready
        first. They are read one after the other, and need not fit into memory together."""
        for path, places in groupby(self._places(), key=lambda place: place.path):
            with path.open("rb") as file:
                for place in places:
                    file.seek(place.begin)
                    yield _parsed(file.readline(), path, place.line)

    def add(self, outcomes: Iterable[tuple[Trial, TrialOutcome]]) -> None:
        """Keep a batch of outcomes: all of them, or, if the process dies, none."""
        lines = [json.dumps({"trial": _plain(trial), **outcome.document()}) for trial, outcome in outcomes]
        write_whole(self._outcomes / f"{next(self._numbers):06d}.jsonl", "\n".join(lines) + "\n")

    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return bool(self.read("golden") and self.read("facts")) and len(self.done()) == self.campaign.size

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{name}.json", json.dumps(document))

    def read(self, name: str) -> dict[str, Any] | None:
        """The facts or the golden runs, or None while they are not there; HoldfastError where the file holds something else."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return None
        document = read_json(path)
        require_shape(path, document, self.campaign)
        return document

    def _take(self, *, taken: bool) -> None:
        """Make the folder this campaign's, and number its next file after those that are there."""
        if self._named.exists():
            _require_same(self._named, self.campaign, taken=taken)
        if not self._named.exists() or read_json(self._named) != self.campaign.document():
            write_whole(self._named, json.dumps(self.campaign.document(), indent=2))
        self._numbers = count(1 + max((int(path.stem) for path in self._files()), default=-1))

    def _leave(self) -> None:
        """Give the folder back where nothing was found out, and remove it if it was not there before."""
        if begun(self.folder):
            return
        for path in (self._named, self._lock):
            path.unlink(missing_ok=True)
        if self._made and not any(self.folder.iterdir()):
            self.folder.rmdir()

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
        return _outcome_files(self.folder)

    def _places(self) -> list["_Place"]:
        """Where the outcome of every trial is, in the order of trials; looked for again where files have come or gone."""
        files = self._files()
        if self._known is None or self._known[0] != files:
            self._known = files, sorted(place for path in files for place in _places_in(path))
        return self._known[1]


def require_room(folder: Path) -> None:
    """Raise HoldfastError unless a folder is there to be made, is empty, or holds a campaign."""
    if folder.exists() and not folder.is_dir():
        raise HoldfastError(f"'{folder}' is a file; results need a folder: give another --out")
    above = next(path for path in folder.absolute().parents if path.exists())
    if not above.is_dir():
        raise HoldfastError(f"'{folder}' cannot be made, because '{above}' is a file; give another --out")
    named = folder / "campaign.json"
    if folder.exists() and not named.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise HoldfastError(f"folder '{folder}' holds something that is no campaign; give a new or an empty one")


@dataclass(frozen=True, order=True)
class _Place:
    """A trial, and the file, the line and the byte at which its outcome is."""

    trial: Trial
    path: Path
    line: int
    begin: int


def _places_in(path: Path) -> Iterator[_Place]:
    begin = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _Place(_parsed(line, path, number)[0], path, number, begin)
            begin += len(line)


def _parsed(line: bytes, path: Path, number: int) -> tuple[Trial, TrialOutcome]:
    try:
        document = json.loads(line)
        case, offset, outage_s, pace, repetition = document["trial"]
        return Trial(case, offset, outage_s, pace, repetition), TrialOutcome.of(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HoldfastError(
            f"results file '{path}' is damaged in line {number}; remove it, and its trials are run again"
        ) from error


def begun(folder: Path) -> bool:
    """Whether anything was found out yet: a folder in which nothing was may become another campaign's."""
    return any(_outcome_files(folder)) or any((folder / "golden").glob("*.npz"))


def require_same_so_far(folder: Path, known: Mapping[str, Any]) -> None:
    """Raise HoldfastError where a folder holds results of a campaign that differs in what is known of this one, a part of its
    document: it is told as early as that is known."""
    named = folder / "campaign.json"
    if not named.exists() or not begun(folder):
        return
    there = read_json(named)
    subject = there.get("subject")
    told = {name: there.get(name) for name in known}
    if isinstance(subject, dict):
        told["subject"] = {name: subject.get(name) for name in known["subject"]}
    _require_equal(named, told, known)


def read_campaign(folder: Path) -> Campaign:
    """The campaign whose results a folder holds."""
    path = folder / "campaign.json"
    if not path.exists():
        raise HoldfastError(f"folder '{folder}' holds no campaign: it has no campaign.json")
    document = read_json(path)
    try:
        return Campaign.of(document)
    except (TypeError, ValueError, AttributeError) as error:
        raise HoldfastError(f"results file '{path}' is damaged; give another folder, or remove this one and start again") from error


def _require_same(named: Path, campaign: Campaign, *, taken: bool) -> None:
    if taken:
        _require_equal(named, read_json(named), campaign.document())


def _require_equal(named: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    if there == here:
        return
    raise HoldfastError(
        f"folder '{named.parent}' holds the results of another campaign: {'; '.join(_differences(there, here))}; give another "
        "folder, or the same campaign to resume it"
    )


def _outcome_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "outcomes").glob("*.jsonl") if path.stem.isdigit())


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What two campaign documents differ in, the subject's fields one by one, each with both its values."""
    found = []
    for name in sorted({*there, *here}):
        before, now = there.get(name), here.get(name)
        if name == "subject" and isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now)
        elif before != now:
            found.append(f"its {name.replace('_', ' ')} {_short(before)}, now {_short(now)}")
    return found


def _lock(file: IO[str]) -> bool:
    """Take the lock on a file, which ends when the file is closed; False where somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    """Whether an open file is still the one with this name."""
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(trial: Trial) -> list[Any]:
    return [trial.case, trial.offset, trial.outage_s, trial.pace, trial.repetition]
