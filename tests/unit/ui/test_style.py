"""The colours of the page and of reports have enough contrast (WCAG 2): 4.5 to 1 for text, 3 to 1 for marks and lines."""

import re

import pytest

from holdfast.report import page as report
from holdfast.ui.page_files import page_files

TEXT_COLOURS = ("ink", "soft", "faint", "accent", "danger", "exact-text", "tentative-text", "predicted-text", "absent-text")
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
    """Return the colours of both themes by name. The dark theme inherits the colours that it does not define."""
    light, dark = (
        dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", style)[:2]
    )
    return {"light": light, "dark": {**light, **dark}}


PAGE, REPORT = themes(page_files()["style.css"][0].decode()), themes(report._STYLE)


def find_low_contrast(colours, names, backgrounds, least):
    return [
        f"{name} on {background}: {contrast(colours[name], colours[background]):.2f}"
        for name in names
        for background in backgrounds
        if contrast(colours[name], colours[background]) < least
    ]


def test_contrast_matches_the_standard():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_text_and_marks_have_enough_contrast(theme):
    colours = PAGE[theme]
    assert find_low_contrast(colours, TEXT_COLOURS, ("card", "paper", "sunk"), 4.5) == []
    assert find_low_contrast(colours, ("ink", "soft", "absent-text"), ("danger-soft", "hover"), 4.5) == []
    assert find_low_contrast(colours, ("on-accent",), ("accent",), 4.5) == []
    assert find_low_contrast(colours, ("card",), [f"{quality}-text" for quality in MARKS[:4]], 4.5) == [], "labels on the graph"
    assert find_low_contrast(colours, SERIES[:4], ("card",), 4.5) == [], "names at the ends of lines"
    assert find_low_contrast(colours, (*MARKS, *SERIES), ("card", "paper"), 3) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_report_text_and_lines_have_enough_contrast(theme):
    colours = REPORT[theme]
    assert find_low_contrast(colours, ("ink", "note", "good", "bad"), ("card", "paper"), 4.5) == []
    assert find_low_contrast(colours, (*SERIES, *MARKS[:4]), ("card", "paper"), 3) == []


def test_page_and_reports_share_quality_colours():
    for theme in ("light", "dark"):
        assert [PAGE[theme][quality] for quality in MARKS[:4]] == [REPORT[theme][quality] for quality in MARKS[:4]]
