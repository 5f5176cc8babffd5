"""The results folder of a campaign: its definition, golden runs, facts and outcomes.

Each file is written under another name and then renamed, so that a killed process leaves no partial file. Each batch of outcomes
is one file; a trial in such a file is done. A running campaign locks its folder. The lock ends with the process.
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

LOCK = ".lock"


class Results:
    """The results of one campaign in a folder. Opening a folder with results of another campaign raises HoldfastError."""

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self.folder, self.campaign = folder, campaign
        self._outcomes, self._definition = folder / "outcomes", folder / "campaign.json"
        require_room(folder)
        self._is_new = not folder.exists()
        self._scan: tuple[list[Path], list[_OutcomeLocation]] | None = None
        self._claim(in_use=has_results(folder) or self._is_locked())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; HoldfastError if another process has the lock.

        If the campaign is rejected before it has results, its files are removed.
        """
        with writing(self._lock):
            file = self._lock.open("a")
        with file:
            if not (_lock(file) and _is_at(self._lock, file)):  # the file may have been removed meanwhile
                raise HoldfastError(_is_running(self.folder))
            self._claim(in_use=has_results(self.folder))  # another process may have used the folder before the lock
            for part in self.folder.rglob(".*.part"):  # partial files of a killed process
                part.unlink()
            try:
                yield
            except HoldfastError:
                self._remove_if_unused()
                raise

    def done(self) -> set[Trial]:
        """Return the trials that have an outcome."""
        return {location.trial for location in self._locations()}

    def outcomes(self) -> Iterator[tuple[Trial, TrialOutcome]]:
        """Yield every trial with its outcome, in the order of trials, so that results do not depend on the order of completion.

        Outcomes are read one by one and need not fit into memory together.
        """
        for path, locations in groupby(self._locations(), key=lambda location: location.path):
            with path.open("rb") as file:
                for location in locations:
                    file.seek(location.begin)
                    yield _parse_outcome(file.readline(), path, location.line)

    def add(self, outcomes: Iterable[tuple[Trial, TrialOutcome]]) -> None:
        """Write a batch of outcomes atomically."""
        lines = [json.dumps({"trial": _plain(trial), **outcome.document()}) for trial, outcome in outcomes]
        write_whole(self._outcomes / f"{next(self._numbers):06d}.jsonl", "\n".join(lines) + "\n")

    def finished(self) -> bool:
        """Return whether all trials have outcomes."""
        return bool(self.read("golden") and self.read("facts")) and len(self.done()) == self.campaign.size

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{name}.json", json.dumps(document))

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the document "facts" or "golden", or None if it does not exist; HoldfastError if it is damaged."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return None
        document = read_json(path)
        require_shape(path, document, self.campaign)
        return document

    def _claim(self, *, in_use: bool) -> None:
        """Write the campaign's definition into the folder, and find the number of the next outcome file."""
        if in_use and self._definition.exists():
            _require_equal(self._definition, read_json(self._definition), self.campaign.document())
        if not self._definition.exists() or read_json(self._definition) != self.campaign.document():
            write_whole(self._definition, json.dumps(self.campaign.document(), indent=2))
        self._numbers = count(1 + max((int(path.stem) for path in self._files()), default=-1))

    def _remove_if_unused(self) -> None:
        """Remove this campaign's files if it has no results yet, and the folder if this object created it."""
        if has_results(self.folder):
            return
        for path in (self._definition, self._lock):
            path.unlink(missing_ok=True)
        if self._is_new and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _is_locked(self) -> bool:
        """Return whether another process has the lock."""
        if not self._lock.exists():
            return False
        with self._lock.open("a") as file:
            return not _lock(file)

    @property
    def _lock(self) -> Path:
        return self.folder / LOCK

    def _files(self) -> list[Path]:
        return _outcome_files(self.folder)

    def _locations(self) -> list["_OutcomeLocation"]:
        """Return the location of every trial's outcome, in the order of trials. Files are scanned again after a change."""
        files = self._files()
        if self._scan is None or self._scan[0] != files:
            self._scan = files, sorted(location for path in files for location in _locations_in(path))
        return self._scan[1]


def require_room(folder: Path) -> None:
    """Raise HoldfastError unless the folder is empty, holds a campaign, or can be created."""
    if folder.exists() and not folder.is_dir():
        raise HoldfastError(f"'{folder}' is a file; results need a folder: give another --out")
    above = next(path for path in folder.absolute().parents if path.exists())
    if not above.is_dir():
        raise HoldfastError(f"'{folder}' cannot be created, because '{above}' is a file; give another --out")
    definition = folder / "campaign.json"
    if folder.exists() and not definition.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise HoldfastError(f"folder '{folder}' has files but no campaign; give a new or an empty one")


def require_not_running(folder: Path) -> None:
    """Raise HoldfastError if another process is running a campaign in the folder."""
    lock = folder / LOCK
    if not lock.exists():
        return
    with lock.open("a") as file:
        if not _lock(file):
            raise HoldfastError(_is_running(folder))


def _is_running(folder: Path) -> str:
    return f"another process is running a campaign in folder '{folder}'; wait until it ends, or give another folder"


@dataclass(frozen=True, order=True)
class _OutcomeLocation:
    """A trial, and the file, line and byte offset of its outcome."""

    trial: Trial
    path: Path
    line: int
    begin: int


def _locations_in(path: Path) -> Iterator[_OutcomeLocation]:
    begin = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _OutcomeLocation(_parse_outcome(line, path, number)[0], path, number, begin)
            begin += len(line)


def _parse_outcome(line: bytes, path: Path, number: int) -> tuple[Trial, TrialOutcome]:
    try:
        document = json.loads(line)
        case, offset, outage_s, pace, repetition = document["trial"]
        return Trial(case, offset, outage_s, pace, repetition), TrialOutcome.of(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HoldfastError(
            f"results file '{path}' is damaged in line {number}; remove it; the same command then runs its trials again"
        ) from error


def has_results(folder: Path) -> bool:
    """Return whether a folder has results. A folder without results may be reused for another campaign."""
    return any(_outcome_files(folder)) or any((folder / "golden").glob("*.npz"))


def require_same_campaign(folder: Path, partial: Mapping[str, Any]) -> None:
    """Raise HoldfastError if the folder has results of a campaign that differs in the values in `partial`, a part of the campaign's
    document. This reports the error before the trace is read."""
    definition = folder / "campaign.json"
    if not definition.exists() or not has_results(folder):
        return
    stored = read_json(definition)
    subject = stored.get("subject")
    comparable = {name: stored.get(name) for name in partial}
    if isinstance(subject, dict):
        comparable["subject"] = {name: subject.get(name) for name in partial["subject"]}
    _require_equal(definition, comparable, partial)


def read_campaign(folder: Path) -> Campaign:
    """Return the campaign of a results folder."""
    path = folder / "campaign.json"
    if not path.exists():
        raise HoldfastError(f"folder '{folder}' holds no campaign: it has no campaign.json")
    document = read_json(path)
    try:
        return Campaign.of(document)
    except (TypeError, ValueError, AttributeError) as error:
        raise HoldfastError(f"results file '{path}' is damaged; give another folder, or remove this one and start again") from error


def _require_equal(definition: Path, stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    if stored == current:
        return
    raise HoldfastError(
        f"folder '{definition.parent}' holds the results of another campaign: {'; '.join(_differences(stored, current))}; "
        "give another folder, or the same campaign to resume it"
    )


def _outcome_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "outcomes").glob("*.jsonl") if path.stem.isdigit())


def _differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return the differing fields of two campaign documents, with both values; fields of the subject one by one."""
    differences = []
    for name in sorted({*stored, *current}):
        before, now = stored.get(name), current.get(name)
        if name == "subject" and isinstance(before, dict) and isinstance(now, dict):
            differences += _differences(before, now)
        elif before != now:
            differences.append(f"its {name.replace('_', ' ')} {_short(before)}, now {_short(now)}")
    return differences


def _lock(file: IO[str]) -> bool:
    """Lock a file until it is closed; return False if another process has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    """Return whether an open file still has this path."""
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(trial: Trial) -> list[Any]:
    return [trial.case, trial.offset, trial.outage_s, trial.pace, trial.repetition]
