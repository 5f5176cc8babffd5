"""Write reports: self-contained HTML pages with inline SVG plots, one module per kind of report.

Read `page.py` (the elements of a page) and `plot.py` (the plots) first; `run.py` is the page of a run.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.report.assessment import WHAT_IF, what_if_rows, write_reports
    from holdfast.report.assessment_plots import growth_plots, local_plot, offset_plot, outage_plot
    from holdfast.report.assessment_words import local_caption, spread_line
    from holdfast.report.page import cards, heading, html_page, paragraph, table, verdicts
    from holdfast.report.plot import FAINT, INK, SERIES, draw_svg, line_plot, standalone_svg
else:
    __getattr__ = lazy_exports(__name__)
