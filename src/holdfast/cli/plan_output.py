"""Output files of holdfast plan. They are checked before planning begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from holdfast.documents.document import write_document
from holdfast.errors import HoldfastError

DOCUMENTS = (".json", ".yaml", ".yml")


class _File(click.Path):
    """A file name that is not empty; an empty one would mean the current folder."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("wanted the name of a file, got an empty one", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)


def check_output(out: Path | None, *, plot: Path | None = None, inputs: Mapping[str, Path | None] | None = None) -> None:
    """Raise HoldfastError unless a document can be written to `out` and a picture to `plot`.

    `inputs` maps options to the files that the command reads, which must not be overwritten.
    """
    _check_inputs({"--out": out, "--plot": plot}, inputs or {})
    if out is not None:
        if out.is_dir():
            raise HoldfastError(f"--out '{out}' is a directory; give the name of a file, such as '{out / 'plan.json'}'")
        if out.suffix not in DOCUMENTS:
            raise HoldfastError(f"--out '{out}' wants a suffix of {', '.join(DOCUMENTS)}; got '{out.suffix}'")
        _check_folder("--out", out)
        if page_path(out).is_dir():
            raise HoldfastError(f"--out '{out}' has its page next to it, and '{page_path(out)}' is a directory; give another name")
    if plot is not None:
        if plot.suffix != ".svg":
            raise HoldfastError(f"--plot '{plot}' wants the suffix .svg, got '{plot.suffix}'")
        if plot.is_dir():
            raise HoldfastError(f"--plot '{plot}' is a directory; give the name of a file")
        _check_folder("--plot", plot)


def write_output(out: Path, document: BaseModel) -> None:
    """Write a document. An OSError is reported for `out`, not for the temporary file."""
    try:
        write_document(out, document)
    except OSError as error:
        raise _unwritable("--out", out, error) from error


def page_path(out: Path) -> Path:
    """Return the path of a document's HTML page.

    >>> page_path(Path("plans/plan.json")).name
    'plan.html'
    """
    return out.with_suffix(".html")


def write_page(out: Path, text: str) -> Path:
    """Write a document's HTML page next to it and return its path."""
    from holdfast.documents.whole_files import write_whole

    write_whole(page_path(out), text)
    return page_path(out)


def write_plot(plot: Path, svg: str) -> None:
    """Write a plot of the page as a picture."""
    from holdfast.documents.whole_files import replace_file
    from holdfast.report.plot import standalone_svg

    try:
        plot.parent.mkdir(parents=True, exist_ok=True)
        replace_file(plot, standalone_svg(svg))
    except OSError as error:
        raise _unwritable("--plot", plot, error) from error
    click.echo(f"drew {plot}", err=True)


def _unwritable(option: str, path: Path, error: OSError) -> HoldfastError:
    """Return the error for a file that cannot be written."""
    return HoldfastError(f"{option} '{path}' cannot be written: {error.strerror}; check the folder, its space and permissions")


def _check_inputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Raise HoldfastError if an output file is one of the input files."""
    for option, target in outputs.items():
        for input_option, source in inputs.items():
            if target is not None and source is not None and target.exists() and source.exists() and target.samefile(source):
                what = "the document to plan for" if input_option == "DOCUMENT" else f"the input of {input_option}"
                raise HoldfastError(f"{option} '{target}' is {what}; give another name")


def _check_folder(option: str, path: Path) -> None:
    """Raise HoldfastError unless the nearest existing folder is writable."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise HoldfastError(f"{option} '{path}' cannot be written: '{folder}' is not a folder; give another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HoldfastError(f"{option} '{path}' cannot be written: folder '{folder}' may not be written to; give another name")
