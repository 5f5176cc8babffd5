"""Renders the verdict tables of papers/README.md from the result files. Run it with `python -m holdfast_papers.readme`.

A table stands between `<!-- findings: NAME ... -->` and `<!-- end -->`. It takes the values from the first named result file and
has a column with the verdict of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_papers.results import FOLDER, read_results

README = FOLDER.parent / "README.md"
BLOCK = re.compile(r"<!-- findings: (?P<names>[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)
LONGEST = 64
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
        lines.append(_row([finding["name"], _shorten(finding["paper"]), _shorten(finding["ours"]), *marks]))
    return "\n".join(lines)


def describe(result: Mapping[str, Any]) -> str:
    """Return how a result was obtained, and how many findings hold."""
    verdicts = [finding["holds"] for finding in result["findings"]]
    seed = "" if result["seed"] is None else f", seed {result['seed']}"
    if result["transcribed"]:
        origin = "an earlier run, transcribed"
    else:
        has = result["machine"]
        origin = f"{result['date']}, {has['cores']} cores, {has['memory_gib']:g} GiB, Python {has['python']}, Spark {has['spark']}"
    return f"`{result['command']}`{seed}; {origin}. {verdicts.count(True)} of {len(verdicts)} findings hold."


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ..."


if __name__ == "__main__":
    README.write_text(render(README.read_text(), read_results()))
