"""The report of all studies as one page: the findings of each, its tables and its pictures."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from holdfast.report import cards, heading, html_page, paragraph, table

HOLDS = {True: "yes", False: "no", None: "unknown"}
PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}


def all_studies_page(results: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str], *, note: str = "") -> str:
    """Return the page. A result has `command`, `seed`, `seconds`, `error`, `findings`, `folder` and `document`."""
    parts = [paragraph(note)] if note else []
    parts += [
        heading("Findings that hold"),
        table(("study", "findings", "hold", "seconds"), [_counts(n, r) for n, r in results.items()]),
    ]
    for name, result in results.items():
        parts += [heading(f"{name}: {titles[name]}"), paragraph(origin(result), note=True)]
        if result["error"]:
            parts.append(paragraph(f"Failed: {result['error']}"))
        if result["findings"]:
            rows = [(f["name"], f["paper"], f["ours"], HOLDS[f["holds"]]) for f in result["findings"]]
            parts.append(table(("finding", "the paper", "here", "holds"), rows, words=("finding", "the paper", "here")))
        if not result["error"]:
            parts += embedded_parts(Path(result["folder"]), result["document"])
    return html_page("The papers' evaluations, run again", parts)


def origin(result: Mapping[str, Any]) -> str:
    """Describe the run that gave a result.

    >>> origin({"command": "holdfast reproduce laar --seed 1", "seed": 1, "seconds": 9.0})
    'Made by: holdfast reproduce laar --seed 1; seed 1; 9 s.'
    """
    seed = "no seed, because nothing is random" if result["seed"] is None else f"seed {result['seed']}"
    return f"Made by: {result['command']}; {seed}; {result['seconds']:g} s."


def _counts(name: str, result: Mapping[str, Any]) -> tuple[str, ...]:
    verdicts = [finding["holds"] for finding in result["findings"]]
    counts = ("failed", "-") if result["error"] else (str(len(verdicts)), str(verdicts.count(True))) if verdicts else ("-", "-")
    return (name, *counts, f"{result['seconds']:g}")


def embedded_parts(folder: Path, document: Mapping[str, Any]) -> list[str]:
    """Return the tables and pictures of a study: its own pages or, without any, its picture files and the rows of its document."""
    bodies = [body for path in sorted(folder.glob("*.html")) if (body := _body(path.read_text()))]
    if bodies:
        return bodies
    files = {path.stem: path for suffix in (".png", ".svg") for path in sorted(folder.glob(f"*{suffix}"))}  # svg wins
    pictures = [_picture(files[stem]) for stem in sorted(files)]
    return [*tables(document), *([cards(pictures)] if pictures else [])]


def _body(text: str) -> str:
    """Return a page without its title and findings, with headings one level lower."""
    inside = text.partition("</h1>")[2].rpartition("</main>")[0]
    inside = re.sub(r"<h2>Findings</h2>.*?(?=<h2>|$)", "", inside, flags=re.DOTALL)
    return inside.replace("<h3>", "<h4>").replace("</h3>", "</h4>").replace("<h2>", "<h3>").replace("</h2>", "</h3>")


def _picture(path: Path) -> str:
    data = b64encode(path.read_bytes()).decode()
    return f'<img class="plot" alt="{escape(path.stem)}" src="data:{PICTURES[path.suffix]};base64,{data}">'


def tables(document: Mapping[str, Any]) -> list[str]:
    """Return the rows of a document as tables, without the findings."""
    parts: list[str] = []
    for name, value in document.items():
        rows = [] if name == "findings" else list(_rows(value))
        columns = list(dict.fromkeys(column for row in rows for column in row))
        if columns:
            parts += [f"<h3>{escape(name)}</h3>", table(columns, [[_cell(row.get(column)) for column in columns] for row in rows])]
    return parts


def _rows(value: Any, where: str = "") -> Iterator[dict[str, Any]]:
    """Yield the rows of a list of mappings, or of a mapping of mappings with their names in the first column."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (dict(row) for row in value if isinstance(row, Mapping))
    elif isinstance(value, Mapping):
        plain = {key: part for key, part in value.items() if not isinstance(part, Mapping)}
        if plain:
            yield {"": where, **plain}
        for key, part in value.items():
            if isinstance(part, Mapping):
                yield from _rows(part, f"{where} {key}".strip())


def _cell(value: Any) -> str:
    """Return a value as text for a table cell.

    >>> [_cell(value) for value in (None, True, 3, 0.123456, [1, 2])]
    ['-', 'yes', '3', '0.1235', '1, 2']
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
