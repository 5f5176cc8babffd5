"""holdfast reproduce all: every paper's evaluation, one after the other, and one report of what held."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.cli.shared import json_option, print_json, say
from holdfast.errors import HoldfastError

SMALL: Mapping[str, Sequence[str]] = {
    "debs11": ("--events", "200000", "--repetitions", "2"),
    "internet": ("--applications", "20", "--racks", "2"),
    "isorc16": ("--epochs", "120", "--part", "algorithms"),
    "laar": ("--applications", "10", "--seconds", "2"),
    "laar-pipeline": ("--low", "8", "--high", "12", "--after", "8"),
    "laar-search": ("--applications", "12", "--seconds", "2"),
    "objectives": ("--sets", "6", "--events", "30000", "--application", "bargain_discovery"),
    "ppa": ("--repetitions", "1", "--events", "20000"),
    "ppa-plans": ("--topologies", "3"),
    "system-s": ("--runs", "1", "--rows", "1,2", "--no-beyond"),
}
"""What makes a command small enough to be tried in minutes."""

ON_SPARK = ("debs11", "laar-search", "objectives", "ppa-plans")
"""Commands that take --master."""


@click.command("all")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduced"), show_default=True, help="Folder."
)
@click.option("--only", help="Only these commands, by commas.")
@click.option("--small", is_flag=True, help="Small sizes: minutes in place of hours, and findings that mean less.")
@click.option("--master", help="A Spark master for the commands that can use one.")
@click.option("--again", is_flag=True, help="Run commands anew whose results are there.")
@json_option
def all_(out: Path, only: str | None, small: bool, master: str | None, again: bool, as_json: bool) -> None:
    """Run every `holdfast reproduce` command and write one report: the paper's value, ours, and whether the finding held.

    Each command works in a folder of its own below --out and keeps what it has done; this command goes on with those that have not
    ended. One that fails is named in the report and does not stop the others.

    \b
    Example:
      holdfast reproduce all --small --out reproduced
    """
    from holdfast.cli.main import REPRODUCE

    known = sorted(name for name in REPRODUCE if name != "all")
    names = [name.strip() for name in only.split(",")] if only else known
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise HoldfastError(f"--only names '{unknown[0]}', which is no command; commands are: {', '.join(known)}")
    results = {}
    for name in names:
        words = [*(SMALL.get(name, ()) if small else ()), *(("--master", master) if master and name in ON_SPARK else ())]
        results[name] = _result(name, words, out, again=again)
    document = {"small": small, "commands": results}
    _write(out, document)
    if as_json:
        print_json(document)
    else:
        for name, result in results.items():
            held = [finding["holds"] for finding in result["findings"]]
            verdict = f"{held.count(True)} of {len(held)} findings hold" if held else "no findings to check"
            click.echo(f"{name:16} {result['error'] or verdict}")
    say(f"report: {out / 'all.html'}")


def _result(name: str, words: Sequence[str], out: Path, *, again: bool) -> dict[str, Any]:
    """The result of one command, run in a process of its own unless it is there for the same words."""
    folder = out / name
    kept = out / f"{name}.result.json"
    command = f"holdfast reproduce {' '.join([name, *words])}"
    if kept.exists() and not again:
        before: dict[str, Any] = json.loads(kept.read_text())
        if before["command"] == command and not before["error"]:
            say(f"{name}: there already")
            return before
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{command} ...")
    began = time.monotonic()
    made = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "reproduce", name, *words, "--out", str(folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
    )
    found: dict[str, Any] = {}
    error = None
    try:
        found = json.loads(made.stdout)
    except json.JSONDecodeError as problem:
        error = f"its answer is no JSON document: {problem}"
    if made.returncode != 0 and not found.get("findings"):  # one that ends so for a finding that does not hold has told it
        error = f"ended with exit code {made.returncode}; call it alone to see why: {command}"
    result = {
        "command": command,
        "seed": found.get("seed"),
        "seconds": round(time.monotonic() - began, 1),
        "error": error,
        "findings": [_plain(finding) for finding in found.get("findings", [])],
    }
    kept.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _plain(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding in the report's words, whatever its command calls them."""
    return {
        "name": finding["name"],
        "paper": finding.get("paper", ""),
        "ours": finding.get("ours", finding.get("found", "")),
        "holds": finding["holds"],
    }


def _write(out: Path, document: Mapping[str, Any]) -> None:
    """Write all.html and all.json."""
    from holdfast.assess.files import write_whole
    from holdfast.cli.main import REPRODUCE
    from holdfast.report.page import heading, page, paragraph, verdicts

    parts = []
    if document["small"]:
        parts.append(paragraph("Made with --small: sizes far below the papers', to see that everything runs."))
    for name, result in document["commands"].items():
        parts.append(heading(f"{name}: {REPRODUCE[name][1]}"))
        seed = "" if result["seed"] is None else f", seed {result['seed']}"
        parts.append(
            paragraph(f"{result['command']}{seed}: {result['seconds']:g} s; tables and pictures are in {name}/.", note=True)
        )
        if result["error"]:
            parts.append(paragraph(f"Failed: {result['error']}"))
        if result["findings"]:
            rows = [
                (f["name"], f["holds"], f"{f['ours']}" + (f" (paper: {f['paper']})" if f["paper"] else ""))
                for f in result["findings"]
            ]
            parts.append(verdicts(rows))
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "all.json", json.dumps(document, indent=2))
    write_whole(out / "all.html", page("The papers' evaluations, run again", parts))
