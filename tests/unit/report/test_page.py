"""Pages are self-contained and escape their text; plots take the colours of the page."""

import re

import pytest

from holdfast.report.page import cards, html_page, table, verdicts
from holdfast.report.plot import draw_svg, line_plot
from holdfast_papers.all_studies_page import embedded_parts
from holdfast_papers.finding import Finding
from holdfast_papers.laar.pipeline_command import _report as pipeline_report
from holdfast_papers.laar.pipeline_study import Load, PipelineRun


def test_page_loads_no_external_files():
    text = html_page("Title", [cards([line_plot([("a", [1, 2], [3, 4]), ("b", [1, 2], [4, 3])], x="x", y="y")])])
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "@import" not in text and "<script" not in text
    assert text.count("<html") == text.count("</html>") == 1


def test_text_is_escaped():
    text = html_page("<b>", [table(("name",), [("<script>alert(1)</script>",)])])
    assert "<script>" not in text and "&lt;script&gt;" in text and "<title>&lt;b&gt;</title>" in text


def test_tables_with_sentences_stack_on_narrow_screens():
    advice = table(("rank", "advice"), [("1", "Protect it.")], words=("advice",))
    assert "<table class=stacked>" in advice and '<td data-column="rank">1</td><td class=words data-column="advice">' in advice
    assert "stacked" not in table(("operator", "R"), [("vwap", "3")])
    narrow = html_page("", []).partition("@media(max-width:40rem)")[2]
    assert ".stacked td.words{display:block;min-width:0" in narrow
    assert '.stacked td[data-column]:not([data-column=""])::before{content:attr(data-column)' in narrow, (
        "sentences say what they are, too"
    )
    assert ".stacked td:empty{display:none}" in narrow


def test_plot_has_the_colours_of_the_page_and_a_label():
    svg = line_plot([("a", [1, 2], [3, 4])], x="outage", y="quality", title="vwap")
    assert 'aria-label="vwap"' in svg and "var(--s0)" in svg and "var(--ink)" in svg
    assert "#0a0b0" not in svg


@pytest.mark.parametrize("scale", ["log", "symlog"])
def test_logarithmic_axes_have_plain_numbers(scale):
    def draw(axes):
        axes.plot([1, 2], [1, 20_000])
        axes.set_yscale(scale)

    svg = draw_svg(draw, label="powers")
    assert "10,000" in svg and "mathdefault" not in svg


def test_plots_are_deterministic():
    plot = [("a", [1, 2], [3, 4])]
    assert line_plot(plot, x="x", y="y") == line_plot(plot, x="x", y="y")


def test_plots_on_a_page_share_no_ids():
    one = line_plot([("a", [1, 2], [3, 4])], x="x", y="y", title="one")
    other = line_plot([("a", [1, 2], [3, 4])], x="x", y="y", title="other")
    assert not set(re.findall(r' id="([^"]+)"', one)) & set(re.findall(r' id="([^"]+)"', other))


def test_verdicts_are_true_false_or_unknown():
    text = verdicts([("a", True, "x"), ("b", False, "y"), ("c", None, "z")])
    assert all(f">{word}<" in text for word in ("true", "false", "unknown"))


def test_report_of_all_studies_embeds_the_pipeline_without_its_findings(tmp_path):
    seen = PipelineRun("static", [4, 4, 8], [4, 4, 8], [0.5, 0.5, 0.5], cpu={"n1": [(0.0, 0.0), (3.0, 2.0)]})
    finding = Finding("it keeps up", "yes", "yes", True)
    (tmp_path / "pipeline.html").write_text(pipeline_report([seen], [finding], Load(), 0.6))
    (body,) = embedded_parts(tmp_path, {})
    assert "it keeps up" not in body  # told above, beside all others
    assert "Two PEs of 0.1 s of CPU time a tuple" in body
    assert body.count("<div class=card>") == 2
