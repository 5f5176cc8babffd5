"""holdfast reproduce all: every paper's evaluation, one after the other, and one report of what held."""

from __future__ import annotations

import ctypes
import fcntl
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from holdfast.cli import json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, say

SMALL: Mapping[str, Sequence[str]] = {
    "debs11": ("--events", "200000", "--repetitions", "2"),
    "internet": ("--applications", "20", "--racks", "4"),
    "isorc16": ("--epochs", "120", "--part", "algorithms"),
    "laar": ("--applications", "10", "--seconds", "2"),
    "laar-pipeline": ("--low", "8", "--high", "12", "--after", "8"),
    "laar-search": ("--applications", "12", "--seconds", "2"),
    "objectives": ("--sets", "6", "--events", "30000", "--application", "bargain_discovery", "--generated", "1"),
    "ppa": ("--repetitions", "1", "--events", "20000", "--quick"),
    "ppa-plans": ("--topologies", "3"),
    "system-s": ("--runs", "1", "--rows", "1,2", "--no-beyond"),
}
"""What makes a command small enough to be tried in minutes."""

FULL: Mapping[str, Sequence[str]] = {"isorc16": ("--full",)}
"""What makes a command run every table and figure of its paper, where it does not by itself."""

LAST = ("laar-search",)
"""What takes longer than everything else together: nothing has to wait for it."""

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
NOTE_EVERY_S = 5.0
TIDY_S = 60.0
"""How long a command that was interrupted may take to end in order."""


@click.command("all")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduced"), show_default=True, help="Folder."
)
@click.option("--only", help="Only these commands, by commas.")
@click.option("--small", is_flag=True, help="Small sizes: minutes in place of hours, and findings that mean less.")
@click.option("--master", help="A Spark master for the commands that can use one.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Requests per minute, for the day of a data center.",
)
@click.option("--again", is_flag=True, help="Begin anew, also with commands whose results or records are there.")
@json_option
def all_(out: Path, only: str | None, small: bool, master: str | None, profile: Path | None, again: bool, as_json: bool) -> None:
    """Run every `holdfast reproduce` command and write one report: every table and figure, the paper's value, ours, and whether the
    finding held.

    Each command works in a folder of its own below --out and keeps what it has done: the same call goes on where it was stopped,
    with the commands that have not ended and where they were. One that fails is named in the report and does not stop the others.
    A call with --again that was stopped goes on so too: nothing is begun anew twice until one has ended well. At full
    size it takes hours on two cores, and laar-search, which comes last, a day or more.

    \b
    Example:
      holdfast reproduce all --small --out reproduced
    """
    from holdfast_papers.reproduce import STUDIES

    known = sorted((name for name in STUDIES if name != "all"), key=lambda name: (name in LAST, name))
    names = [name.strip() for name in only.split(",")] if only else known
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise HoldfastError(f"--only names '{unknown[0]}', which is no command; commands are: {', '.join(known)}")
    given = {"master": master, "profile": None if profile is None else str(profile)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the command under way is ended
    results: dict[str, dict[str, Any]] = {}
    with _alone(out):
        for name in names:
            words = [*(SMALL[name] if small else FULL.get(name, ())), *_own_words(name, given)]
            folder = _folder(out, name, small=small)
            if again:
                _begin_anew(folder)
            results[name] = _result(name, words, folder)
            _write(out, _known(out, known, small=small), small=small)
        failed = [name for name, result in results.items() if result["error"]]
        if not failed:
            for name in names:
                _beside(_folder(out, name, small=small), "again").unlink(missing_ok=True)
    if as_json:
        print_json(_told(results, small=small))
    else:
        for name, result in results.items():
            held = [finding["holds"] for finding in result["findings"]]
            verdict = f"{held.count(True)} of {len(held)} findings hold" if held else "no findings to check"
            click.echo(f"{name:16} {result['error'] or verdict}")
    say(f"report: {out / 'all.html'}")
    if failed:
        raise HoldfastError(f"{len(failed)} of {len(results)} commands failed: {', '.join(failed)}; the same call runs them again")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Wait until nobody else works in the folder: another call, or the command that one which was killed had started."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another call that works in '{out}' to end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _own_words(name: str, given: Mapping[str, str | None]) -> list[str]:
    """The options that a command takes of those given, and its seed, so that its call says all."""
    from holdfast_papers.reproduce import reproduce

    assert isinstance(reproduce, click.Group)
    command = reproduce.get_command(click.get_current_context(), name)
    assert command is not None
    words: list[str] = []
    for option in command.params:
        value = given.get(option.name or "")
        if option.name == "seed":
            value = str(option.default)
        if value is not None:
            words += [option.opts[0], value]
    return words


def _begin_anew(folder: Path) -> None:
    """Forget what a command gave and kept, unless a call with --again that has not ended well did so before."""
    begun = _beside(folder, "again")
    if begun.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for kept in ("result.json", "seconds"):
        _beside(folder, kept).unlink(missing_ok=True)
    begun.touch()


def _result(name: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """The result of one command, run in a process of its own unless it is there for the same words."""
    from holdfast.documents import read_json, write_whole

    kept = _beside(folder, "result.json")
    command = f"holdfast reproduce {' '.join([name, *words])}"
    if kept.exists():
        before = read_json(kept)
        if before["command"] == command and not before["error"]:
            say(f"{name}: there already")
            return before | {"folder": str(folder)}
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{command} ...")
    spent = _Spent(_beside(folder, "seconds"))
    code, told = called([name, *words, "--out", str(folder), "--json"], meanwhile=spent.note)
    found: dict[str, Any] = {}
    error = None
    try:
        found = json.loads(told)
    except json.JSONDecodeError as decode_error:
        error = f"its answer is no JSON document: {decode_error}"
    if code != 0 and not found.get("findings"):  # one that ends so for a finding that does not hold has told it
        error = f"ended with exit code {code}; call it alone to see why: {command} --out {shlex.quote(str(folder))}"
    result = {
        "command": command,
        "seed": words[words.index("--seed") + 1] if "--seed" in words else None,
        "seconds": round(spent.seconds, 1),
        "error": error,
        "findings": found.get("findings", []),
        "folder": str(folder),
        "document": found,
    }
    write_whole(kept, json.dumps(result, indent=2) + "\n")
    if error:
        spent.note()
    else:
        spent.forget()
    return result


class _Spent:
    """The seconds that a command has taken in all calls until it ends well, noted while it works: a kill loses few of them."""

    def __init__(self, noted: Path) -> None:
        self._noted = noted
        self._before = float(noted.read_text()) if noted.exists() else 0.0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    def note(self) -> None:
        from holdfast.documents import write_whole

        write_whole(self._noted, f"{self.seconds:.1f}\n")

    def forget(self) -> None:
        self._noted.unlink(missing_ok=True)


def called(words: Sequence[str], *, meanwhile: Callable[[], None]) -> tuple[int, str]:
    """Exit code and standard output of `holdfast reproduce` with these words; it is ended when this process ends.

    `meanwhile` is called every few seconds until then.
    """
    command = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "reproduce", *words],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    try:
        while True:
            meanwhile()
            try:
                told, _ = command.communicate(timeout=NOTE_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
            return command.returncode, told
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            command.wait(timeout=TIDY_S)  # a terminal's Ctrl-C is for it too
        raise
    finally:
        command.terminate()  # nothing, where it has ended
        command.wait()


def _die_with_parent() -> None:
    """Ask the system to end this process when its parent is killed: a command left alone would go on beside the next call's."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)


def _folder(out: Path, name: str, *, small: bool) -> Path:
    """Where a command works: small sizes apart, for its records are not those of the others."""
    return out / (f"{name}-small" if small else name)


def _beside(folder: Path, what: str) -> Path:
    """What is kept of a command beside its folder: its result, the seconds that it took so far, whether it was begun anew."""
    return folder.with_name(f"{folder.name}.{what}")


def _known(out: Path, names: Sequence[str], *, small: bool) -> dict[str, dict[str, Any]]:
    """Every result that is there, those of earlier calls too."""
    from holdfast.documents import read_json

    folders = {name: _folder(out, name, small=small) for name in names}
    results = {name: _beside(at, "result.json") for name, at in folders.items()}
    return {name: read_json(kept) | {"folder": str(folders[name])} for name, kept in results.items() if kept.exists()}


def _told(results: Mapping[str, Mapping[str, Any]], *, small: bool) -> dict[str, Any]:
    """The report in plain values; what a command gave besides is in its own folder."""
    told = {name: {key: value for key, value in result.items() if key != "document"} for name, result in results.items()}
    return {"small": small, "commands": told}


def _write(out: Path, results: Mapping[str, Mapping[str, Any]], *, small: bool) -> None:
    """Write all.html and all.json of what there is so far."""
    from holdfast.documents import write_whole
    from holdfast_papers.report import reproduction_page
    from holdfast_papers.reproduce import STUDIES

    note = "Made with --small: sizes far below the papers', to see that everything runs." if small else ""
    write_whole(out / "all.json", json.dumps(_told(results, small=small), indent=2))
    write_whole(out / "all.html", reproduction_page(results, {name: STUDIES[name][1] for name in results}, note=note))
