"""papers/README.md: its tables come from the result files, and the modules that it names exist."""

import re
from pathlib import Path

from holdfast_papers.readme import BLOCK, README, findings_table, render
from holdfast_papers.results import FOLDER, read_results

ROOT = README.parents[1]
SOURCES = (Path("src/holdfast"), Path("papers/src/holdfast_papers"))
SMALL = {
    "command": "holdfast reproduce laar --applications 3",
    "seed": 1,
    "machine": {"cores": 2, "memory_gib": 8.0, "python": "3.11", "spark": "4.1"},
    "date": "2026-01-31",
    "transcribed": None,
    "findings": [
        {"name": "a", "paper": "1", "ours": "2|3", "holds": True},
        {"name": "b", "paper": "(not in the paper)", "ours": "x", "holds": False},
    ],
}


def test_readme_is_rendered_from_the_current_results():
    text = README.read_text()
    assert text == render(text, read_results()), "run: python -m holdfast_papers.readme"


def test_readme_shows_every_result_file():
    named = {name for block in BLOCK.finditer(README.read_text()) for name in block["names"].split()}
    assert named == {path.stem for path in FOLDER.glob("*.json")}


def test_readme_is_short_enough_to_read():
    assert README.stat().st_size < 27_000


def test_modules_that_the_readme_names_exist():
    modules = set(re.findall(r"`([a-z_0-9/]+\.py)`", README.read_text()))
    assert modules
    missing = [name for name in sorted(modules) if not any((ROOT / top / name).is_file() for top in SOURCES)]
    assert missing == []


def test_table_has_a_verdict_for_each_result_file():
    other = SMALL | {"transcribed": "copied by hand", "findings": [SMALL["findings"][1] | {"holds": True}]}
    assert findings_table(["new", "old"], {"new": SMALL, "old": other}).splitlines() == [
        "- [new](results/new.json): `laar --applications 3`, seed 1, 2026-01-31. 1 of 2 hold.",
        "- [old](results/old.json): `laar --applications 3`, seed 1, transcribed. 1 of 1 hold.",
        "",
        "| finding | paper | here | new | old |",
        "|---|---|---|---|---|",
        "| a | 1 | 2\\|3 | yes | - |",
        "| b |  | x | **no** | yes |",
    ]


def test_findings_that_hold_are_named_without_a_row():
    assert findings_table(["new"], {"new": SMALL}).splitlines()[1:] == [
        "",
        "Hold: a.",
        "",
        "| finding | paper | here | holds |",
        "|---|---|---|---|",
        "| b |  | x | **no** |",
    ]
