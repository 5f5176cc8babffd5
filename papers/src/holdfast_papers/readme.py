"""Render the verdict tables of papers/README.md from the result files: `python -m holdfast_papers.readme`.

A table is between `<!-- findings: NAME ... -->` and `<!-- end -->`. It shows the values of the first named result file, and the
verdicts of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_papers.results import FOLDER, read_results

README = FOLDER.parent / "README.md"
BLOCK = re.compile(r"<!-- findings: (?P<names>[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)
LONGEST = 48
"""Characters of a value that the table shows; the result file has all of it."""


def render(text: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the README with every table of findings replaced by that of the current result files."""

    def replace(block: re.Match[str]) -> str:
        names = block["names"].split()
        return f"<!-- findings: {' '.join(names)} -->\n{findings_table(names, results)}\n<!-- end -->"

    return BLOCK.sub(replace, text)


def findings_table(names: Sequence[str], results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line about each result file, and a table of all findings in Markdown."""
    first, *others = (results[name] for name in names)
    lines = [f"- [{name}](results/{name}.json): {describe(results[name])}" for name in names]
    columns = ["finding", "paper", "here", *(["holds"] if not others else names)]
    lines += ["", _row(columns), "|" + "---|" * len(columns)]
    verdicts = [{finding["name"]: finding["holds"] for finding in other["findings"]} for other in (first, *others)]
    for finding in first["findings"]:
        marks = [{True: "yes", False: "**no**", None: "-"}[verdict.get(finding["name"])] for verdict in verdicts]
        paper = "" if finding["paper"].startswith("(not in ") else _shorten(finding["paper"])
        lines.append(_row([finding["name"], paper, _shorten(finding["ours"]), *marks]))
    return "\n".join(lines)


def describe(result: Mapping[str, Any]) -> str:
    """Return how a result was obtained, and how many findings hold."""
    verdicts = [finding["holds"] for finding in result["findings"]]
    command = result["command"].removeprefix("holdfast reproduce ")
    seed = "" if result["seed"] is None or "--seed" in command else f", seed {result['seed']}"
    date = "transcribed" if result["transcribed"] else result["date"]
    return f"`{command}`{seed}, {date}. {verdicts.count(True)} of {len(verdicts)} hold."


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ..."


if __name__ == "__main__":
    README.write_text(render(README.read_text(), read_results()))
