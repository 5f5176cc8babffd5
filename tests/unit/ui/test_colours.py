"""Colours of the page and of reports: words stand out from what they stand on (WCAG 2, 4.5 to 1), marks and lines too (3 to 1)."""

import re

import pytest

from holdfast.report import page as report
from holdfast.ui.page_files import page_files

WORDS = ("ink", "soft", "faint", "accent", "danger", "exact-text", "tentative-text", "predicted-text", "absent-text")
MARKS = ("exact", "tentative", "predicted", "absent", "none")
SERIES = tuple(f"s{number}" for number in range(6))


def luminance(colour):
    digits = colour.lstrip("#")
    whole = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(whole[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes(style):
    """The colours of both themes, by name: what dark does not say is as in light."""
    light, dark = (
        dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", style)[:2]
    )
    return {"light": light, "dark": {**light, **dark}}


PAGE, REPORT = themes(page_files()["style.css"][0].decode()), themes(report._STYLE)


def too_faint(colours, names, grounds, least):
    return [
        f"{name} on {ground}: {contrast(colours[name], colours[ground]):.2f}"
        for name in names
        for ground in grounds
        if contrast(colours[name], colours[ground]) < least
    ]


def test_contrast_is_that_of_the_standard():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_of_the_page_can_be_told_from_their_ground(theme):
    colours = PAGE[theme]
    assert too_faint(colours, WORDS, ("card", "paper", "sunk"), 4.5) == []
    assert too_faint(colours, ("ink", "soft", "absent-text"), ("danger-soft", "hover"), 4.5) == []
    assert too_faint(colours, ("on-accent",), ("accent",), 4.5) == []
    assert too_faint(colours, ("card",), [f"{quality}-text" for quality in MARKS[:4]], 4.5) == [], "labels on the graph"
    assert too_faint(colours, SERIES[:4], ("card",), 4.5) == [], "names at the ends of lines"
    assert too_faint(colours, (*MARKS, *SERIES), ("card", "paper"), 3) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_lines_of_reports_can_be_told_from_their_ground(theme):
    colours = REPORT[theme]
    assert too_faint(colours, ("ink", "note", "good", "bad"), ("card", "paper"), 4.5) == []
    assert too_faint(colours, (*SERIES, *MARKS[:4]), ("card", "paper"), 3) == []


def test_qualities_have_the_same_colours_on_the_page_and_in_reports():
    for theme in ("light", "dark"):
        assert [PAGE[theme][quality] for quality in MARKS[:4]] == [REPORT[theme][quality] for quality in MARKS[:4]]
