"""Render the verdict tables of papers/README.md from the result files: `python -m holdfast_papers.readme`.

A block between `<!-- findings: NAME ... -->` and `<!-- end -->` names the findings that hold in every named result file. A table
shows the others, with the values of the first file and the verdicts of all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_papers.results import FOLDER, read_results

README = FOLDER.parent / "README.md"
BLOCK = re.compile(r"<!-- findings: (?P<names>[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)
LONGEST = 72
"""Characters of a value that the table shows; the result file has all of it."""
MARKS = {True: "yes", False: "**no**", None: "-"}


def render(text: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the README with every table of findings replaced by that of the current result files."""

    def replace(block: re.Match[str]) -> str:
        names = block["names"].split()
        return f"<!-- findings: {' '.join(names)} -->\n{findings_table(names, results)}\n<!-- end -->"

    return BLOCK.sub(replace, text)


def findings_table(names: Sequence[str], results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line about each result file, the findings that hold in all of them, and a table of the others, in Markdown."""
    lines = [f"- [{name}](results/{name}.json): {describe(results[name])}" for name in names]
    verdicts = [{finding["name"]: finding["holds"] for finding in results[name]["findings"]} for name in names]
    holding, others = [], []
    for finding in results[names[0]]["findings"]:
        marks = [MARKS[verdict.get(finding["name"])] for verdict in verdicts]
        if set(marks) == {MARKS[True]}:
            holding.append(finding["name"])
        else:
            paper = "" if finding["paper"].startswith("(not in ") else _shorten(finding["paper"])
            others.append(_row([finding["name"], paper, _shorten(finding["ours"]), *marks]))
    if holding:
        lines += ["", f"Hold: {'; '.join(holding)}."]
    if others:
        columns = ["finding", "paper", "here", *(["holds"] if len(names) == 1 else names)]
        lines += ["", _row(columns), "|" + "---|" * len(columns), *others]
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
