"""Result files: what a study found, with which command, at which size and on which machine.

`holdfast reproduce STUDY --keep` writes papers/results/STUDY.json in a checkout. papers/README.md is rendered from these files.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click
import psutil
from click.core import ParameterSource

from holdfast.cli import json_option
from holdfast.documents import write_whole
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, say

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = Path(__file__).parents[2] / "results"
"""papers/results of the checkout. An installed package has no such folder."""
KEEP = "holdfast_papers.keep"
NOT_SIZE = ("as_json", "out", "seed", "workers", "master", "memory")
"""Parameters that do not change how much a study does."""


def result_options(command: F) -> F:
    """Add --json and --keep to the command of a study, which must end with `finish`."""
    keep = click.option(
        "--keep", is_flag=True, expose_value=False, callback=_note_keep, help="Write papers/results/STUDY.json in a checkout."
    )
    return json_option(keep(command))


def _note_keep(context: click.Context, _: click.Parameter, keep: bool) -> None:
    if keep and not FOLDER.is_dir():
        raise HoldfastError(f"--keep: there is no folder '{FOLDER}'; call it from a checkout of holdfast")
    context.meta[KEEP] = keep


def finish(document: Mapping[str, Any], *, as_json: bool, show: Callable[[], None]) -> None:
    """Print the document of a study as JSON, or call `show` to print it for a person. With --keep, write its result file."""
    context = click.get_current_context()
    if as_json:
        print_json(document)
    else:
        show()
    if context.meta.get(KEEP):
        path = FOLDER / f"{_result_name(context)}.json"
        write_whole(path, json.dumps(_result(context, document), indent=2) + "\n")
        say(f"result: {path}")


def show_findings(document: Mapping[str, Any], *, with_paper: bool = False) -> None:
    """Print each finding of a study, whether it holds, and our value."""
    for finding in document["findings"]:
        paper = f" (paper: {finding['paper']})" if with_paper else ""
        click.echo(f"{'holds' if finding['holds'] else 'FAILS':5}  {finding['name']}: {finding['ours']}{paper}")


def _result_name(context: click.Context) -> str:
    part = context.params.get("part", "all")
    return str(context.info_name) + ("" if part == "all" else f"-{part}")


def _result(context: click.Context, document: Mapping[str, Any]) -> dict[str, Any]:
    size = {name: value for name, value in context.params.items() if name not in NOT_SIZE and value not in (None, (), False)}
    return {
        "study": str(context.info_name),
        "command": _command(context),
        "seed": context.params.get("seed"),
        "size": json.loads(json.dumps(size, default=lambda value: value.name if isinstance(value, Path) else str(value))),
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "transcribed": None,
        "findings": document["findings"],
    }


def _command(context: click.Context) -> str:
    """Return the command as the user gave it, without the options that say where results go."""
    words = ["holdfast", "reproduce", str(context.info_name)]
    for param in context.command.params:
        name = param.name or ""
        if name in ("as_json", "out", "keep") or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        for single in value if isinstance(value, tuple) else (value,):
            words.append(max(param.secondary_opts if single is False else param.opts, key=len))
            if not isinstance(single, bool):
                words.append(single.name if isinstance(single, Path) else str(single))
    return shlex.join(words)


def machine() -> dict[str, Any]:
    """Describe this machine: cores, memory, and the versions of Python and Spark."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "spark": version("pyspark"),
    }


def read_results(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Return every result file of a folder by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
