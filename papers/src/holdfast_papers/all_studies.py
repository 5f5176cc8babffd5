"""holdfast reproduce all: runs every study, one after the other, and writes one report of all findings."""

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
"""Options that make a study end within minutes."""

FULL: Mapping[str, Sequence[str]] = {"isorc16": ("--full",)}
"""Options that make a study cover all of its paper."""

LAST = ("laar-search",)
"""Studies that run last because they take longer than all others together."""

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
SAVE_EVERY_S = 5.0
END_S = 60.0
"""How long an interrupted study may take to end."""


@click.command("all")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduced"), show_default=True, help="Folder."
)
@click.option("--only", help="Only these studies, separated by commas.")
@click.option("--small", is_flag=True, help="Small sizes: minutes instead of hours, but weaker findings.")
@click.option("--master", help="A Spark master for the studies that can use one.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Requests per minute, for the study 'internet'.",
)
@click.option("--again", is_flag=True, help="Run all studies again, also those with results or records.")
@json_option
def all_(out: Path, only: str | None, small: bool, master: str | None, profile: Path | None, again: bool, as_json: bool) -> None:
    """Run every study and write one report: all tables and figures, the paper's values, ours, and whether each finding holds.

    Each study works in its own folder below --out. The same call continues an interrupted one, also one with --again. A study
    that fails is named in the report and does not stop the others. At full size this takes hours on two cores, and laar-search,
    which runs last, takes a day or more.

    \b
    Example:
      holdfast reproduce all --small --out reproduced
    """
    from holdfast_papers.reproduce import STUDIES

    studies = sorted((name for name in STUDIES if name != "all"), key=lambda name: (name in LAST, name))
    names = [name.strip() for name in only.split(",")] if only else studies
    unknown = sorted(set(names) - set(studies))
    if unknown:
        raise HoldfastError(f"--only names '{unknown[0]}', which is not a study; studies are: {', '.join(studies)}")
    options = {"master": master, "profile": None if profile is None else str(profile)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises here, which ends the running study
    results: dict[str, dict[str, Any]] = {}
    with _locked(out):
        for name in names:
            words = [*(SMALL[name] if small else FULL.get(name, ())), *_study_options(name, options)]
            folder = _folder(out, name, small=small)
            if again:
                _clear_once(folder)
            results[name] = _result(name, words, folder)
            _write_report(out, _read_results(out, studies, small=small), small=small)
        failed = [name for name, result in results.items() if result["error"]]
        if not failed:
            for name in names:
                _companion(_folder(out, name, small=small), "again").unlink(missing_ok=True)
    if as_json:
        print_json(_summary(results, small=small))
    else:
        for name, result in results.items():
            verdicts = [finding["holds"] for finding in result["findings"]]
            count = f"{verdicts.count(True)} of {len(verdicts)} findings hold" if verdicts else "no findings to check"
            click.echo(f"{name:16} {result['error'] or count}")
    say(f"report: {out / 'all.html'}")
    if failed:
        raise HoldfastError(f"{len(failed)} of {len(results)} studies failed: {', '.join(failed)}; the same call runs them again")


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Hold the lock of the folder. Wait for another call that works there, or for a study that a killed call started."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another call that works in '{out}' ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _study_options(name: str, options: Mapping[str, str | None]) -> list[str]:
    """Return those of the options that the study has, and its default seed, so that the call is complete."""
    from holdfast_papers.reproduce import reproduce

    assert isinstance(reproduce, click.Group)
    command = reproduce.get_command(click.get_current_context(), name)
    assert command is not None
    words: list[str] = []
    for option in command.params:
        value = options.get(option.name or "")
        if option.name == "seed":
            value = str(option.default)
        if value is not None:
            words += [option.opts[0], value]
    return words


def _clear_once(folder: Path) -> None:
    """Remove results and records of a study, unless an interrupted call with --again has done so."""
    cleared = _companion(folder, "again")
    if cleared.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for suffix in ("result.json", "seconds"):
        _companion(folder, suffix).unlink(missing_ok=True)
    cleared.touch()


def _result(name: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the result of a study. Run it in its own process unless a result of the same call exists."""
    from holdfast.documents import read_json, write_whole

    file = _companion(folder, "result.json")
    command = f"holdfast reproduce {' '.join([name, *words])}"
    if file.exists():
        earlier = read_json(file)
        if earlier["command"] == command and not earlier["error"]:
            say(f"{name}: has a result")
            return earlier | {"folder": str(folder)}
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{command} ...")
    stopwatch = _Stopwatch(_companion(folder, "seconds"))
    code, output = call_study([name, *words, "--out", str(folder), "--json"], meanwhile=stopwatch.save)
    document: dict[str, Any] = {}
    error = None
    try:
        document = json.loads(output)
    except json.JSONDecodeError as decode_error:
        error = f"its output is not a JSON document: {decode_error}"
    if code != 0 and not document.get("findings"):  # a study may fail because a finding does not hold
        error = f"ended with exit code {code}; call it alone to see why: {command} --out {shlex.quote(str(folder))}"
    result = {
        "command": command,
        "seed": words[words.index("--seed") + 1] if "--seed" in words else None,
        "seconds": round(stopwatch.seconds, 1),
        "error": error,
        "findings": document.get("findings", []),
        "folder": str(folder),
        "document": document,
    }
    write_whole(file, json.dumps(result, indent=2) + "\n")
    if error:
        stopwatch.save()
    else:
        stopwatch.clear()
    return result


class _Stopwatch:
    """Counts the seconds of a study over all calls until it succeeds. They are saved while it runs, so a kill loses few of them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._earlier_s = float(file.read_text()) if file.exists() else 0.0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._earlier_s + time.monotonic() - self._began

    def save(self) -> None:
        from holdfast.documents import write_whole

        write_whole(self._file, f"{self.seconds:.1f}\n")

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


def call_study(words: Sequence[str], *, meanwhile: Callable[[], None]) -> tuple[int, str]:
    """Run `holdfast reproduce` with these words; return its exit code and standard output. It ends when this process ends.

    Calls `meanwhile` every few seconds.
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
                output, _ = command.communicate(timeout=SAVE_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
            return command.returncode, output
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            command.wait(timeout=END_S)  # a terminal's Ctrl-C reaches it too
        raise
    finally:
        command.terminate()  # does nothing if it has ended
        command.wait()


def _die_with_parent() -> None:
    """Ask the system to end this process when its parent is killed. Otherwise it would run next to the next call's study."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)


def _folder(out: Path, name: str, *, small: bool) -> Path:
    """Return the folder of a study. Small sizes have their own, because their records differ."""
    return out / (f"{name}-small" if small else name)


def _companion(folder: Path, suffix: str) -> Path:
    """Return a file next to the folder of a study: its result, its seconds so far, or the mark that --again cleared it."""
    return folder.with_name(f"{folder.name}.{suffix}")


def _read_results(out: Path, names: Sequence[str], *, small: bool) -> dict[str, dict[str, Any]]:
    """Return all results in the folder, including those of earlier calls."""
    from holdfast.documents import read_json

    folders = {name: _folder(out, name, small=small) for name in names}
    files = {name: _companion(folder, "result.json") for name, folder in folders.items()}
    return {name: read_json(file) | {"folder": str(folders[name])} for name, file in files.items() if file.exists()}


def _summary(results: Mapping[str, Mapping[str, Any]], *, small: bool) -> dict[str, Any]:
    """Return the report in plain values, without the documents of the studies."""
    commands = {name: {key: value for key, value in result.items() if key != "document"} for name, result in results.items()}
    return {"small": small, "commands": commands}


def _write_report(out: Path, results: Mapping[str, Mapping[str, Any]], *, small: bool) -> None:
    """Write all.html and all.json from the results so far."""
    from holdfast.documents import write_whole
    from holdfast_papers.all_studies_page import all_studies_page
    from holdfast_papers.reproduce import STUDIES

    note = "Made with --small: sizes far below the papers', to check that everything runs." if small else ""
    write_whole(out / "all.json", json.dumps(_summary(results, small=small), indent=2))
    write_whole(out / "all.html", all_studies_page(results, {name: STUDIES[name][1] for name in results}, note=note))
