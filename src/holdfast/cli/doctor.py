"""holdfast doctor: list what this machine has, what is missing and how to install it."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from holdfast.cli.shared import json_option
from holdfast.terminal import print_json


@dataclass(frozen=True)
class Requirement:
    """Something that holdfast needs or can use, and whether this machine has it."""

    name: str
    actual: str
    required: bool
    ok: bool
    advice: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """List what this machine has, what is missing and how to install it. Exit code 2 if something required is missing.

    \b
    Example:
      holdfast doctor
    """
    requirements = list(examine())
    if as_json:
        print_json({"ok": all(r.ok or not r.required for r in requirements), "requirements": [asdict(r) for r in requirements]})
    else:
        for requirement in requirements:
            mark = "ok     " if requirement.ok else "MISSING" if requirement.required else "absent "
            click.echo(f"{mark} {requirement.name}: {requirement.actual}{'' if requirement.ok else '; ' + requirement.advice}")
    if any(r.required and not r.ok for r in requirements):
        sys.exit(2)  # click ignores the code of its own Exit outside standalone mode


def examine() -> Iterator[Requirement]:
    """Examine this machine. Starts no process but `java -version`."""
    from holdfast.engine.session import JAVA, java_version

    python = sys.version_info
    yield Requirement("Python", platform.python_version(), True, python >= (3, 11), "install Python 3.11 or newer")
    java = java_version()
    yield Requirement(
        "Java",
        f"version {java}" if java else "none found",
        True,
        java is not None and java >= JAVA,
        f"Spark needs Java {JAVA} or newer: apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
    )
    for package in ("pyspark", "pyarrow", "pandas"):
        try:
            yield Requirement(package, version(package), True, True)
        except PackageNotFoundError:
            yield Requirement(package, "not installed", True, False, "run 'make setup' in the project's folder")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    yield Requirement("memory", f"{memory:.1f} GiB", True, memory >= 4, "Spark needs at least 4 GiB; lower it with --memory")
    yield Requirement("cores", str(os.cpu_count()), True, (os.cpu_count() or 0) >= 1)
    scratch = Path(tempfile.gettempdir())
    free = shutil.disk_usage(scratch).free / 2**30
    yield Requirement(
        "scratch space", f"{free:.1f} GiB free in {scratch}", True, free >= 2, "Spark spills there: free some, or set TMPDIR"
    )
    postgres = shutil.which("postgres") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")), None)
    for program, path in (("PostgreSQL", postgres), ("Chromium", shutil.which("chromium"))):
        advice = f"only some tests use it: apt-get install {program.lower()}"
        yield Requirement(program, path or "not found", False, path is not None, advice)
