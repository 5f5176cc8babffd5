"""The HTML page of an advice: what to protect, its cost, and the expected losses. Every figure links to its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from textwrap import fill
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from holdfast.advise.advice import Advice, Next
from holdfast.advise.candidates import OBJECTIVE_NAMES
from holdfast.advise.losses import Expected, Loss, losses_of
from holdfast.assess.assessment import Assessment, CaseView
from holdfast.assess.campaign import Campaign
from holdfast.report.page import Markup, cards, heading, html_page, paragraph, table
from holdfast.report.plot import INK, SERIES, draw_svg

if TYPE_CHECKING:
    from holdfast.advise.verification import Kill, Verified

VERDICT_WORDS = {True: "yes", False: "no", None: "shows nothing"}
ALONE = "failing-alone"
"""Anchor of the table of losses when each operator fails alone. The expected loss of one failure is their mean."""
SINKS = "The sinks are cheap; 'holdfast run' gives each a replica too."
COST = "cost"
"""Anchor of the table of replica costs."""
PROFILE, RATES, RUN = "descriptor.yaml", "topology.yaml", "verify/run/"
"""Files next to the page: measured costs, measured rates, and the run with real kills."""


class _Trials:
    """The trials behind an advice, each with an anchor on the page for links."""

    def __init__(self, campaigns: Mapping[str, tuple[Campaign, Assessment]]) -> None:
        self._campaigns = campaigns
        views = [view for _, assessment in campaigns.values() for view in assessment.cases]
        self._anchors = [(loss, f"trials-{number}") for number, loss in enumerate(losses_of([view])[view.case] for view in views)]

    def figure(self, loss: Loss) -> Markup:
        """Return a loss with its spread, linked to the trials that it was computed from, if any."""
        return _spread(self.linked(f"{loss.mean:,.4g}", loss), *loss.spread)

    def linked(self, text: str, loss: Loss) -> Markup:
        """Return a text linked to the trials of a loss."""
        same = [anchor for tried, anchor in self._anchors if tried == loss]
        same_case = [anchor for tried, anchor in self._anchors if tried.case == loss.case]
        return _link(text, next(iter(same + same_case), None))

    def parts(self) -> list[str]:
        """Return every campaign with the results of its trials."""
        parts, anchors = [], iter(anchor for _, anchor in self._anchors)
        for folder, (campaign, assessment) in self._campaigns.items():
            parts.append(
                f'<p>{campaign.size:,} trials, seed {campaign.seed}, in folder <a href="{escape(folder)}/report.html">'
                f"<code>{escape(folder)}</code></a>; the score is <code>{escape(assessment.score.expression)}</code>.</p>"
            )
            parts += [_trials(campaign, view, next(anchors)) for view in assessment.cases]
        return parts


def advice_page(
    advice: Advice,
    campaigns: Mapping[str, tuple[Campaign, Assessment]],
    notes: Sequence[str] = (),
    verified: Verified | None = None,
) -> str:
    """Return the page. `campaigns` has the assessments by folder, `notes` extra paragraphs, `verified` the result of real kills."""
    trials = _Trials(campaigns)
    chosen = advice.chosen
    expected = (
        f"A failure of {advice.outage_s:g} s costs {_expected(advice.unprotected)} s of output on average without any replica, and "
        f"{_expected(chosen.single)} s with these: {_link(f'{advice.remaining:.1%}', ALONE)} remains. "
        "When everything without a replica fails at "
        f'once it costs {trials.figure(chosen.together)} s, with <a href="{RATES}">{escape(advice.completeness)}</a>.'
    )
    parts = [
        heading("What to protect"),
        paragraph(f"Protect {_and(chosen.candidate.protected)}. {advice.chosen_for} {SINKS if chosen.candidate.protected else ''}"),
        heading("What it costs"),
        _cost(advice),
        _next(advice.next_unit(), trials),
        heading("What is lost otherwise"),
        f"<p>{expected}</p>",
        f'<p class="note">An outage lasts {advice.outage_s:g} s at the peak rate, or {advice.failover_s:g} s where a replica takes '
        "over. Losses are seconds of usual output: the score that is missing or wrong, divided by what the output usually scores "
        "in a second. Each is the mean over the offsets that were tried, followed by the least and the greatest in brackets.</p>",
        heading("How certain that is"),
        f"<p>{escape(advice.confidence)} {_orders(advice, trials)}</p>",
        *(paragraph(text) for text in notes),
        *(_verified(advice, verified, trials) if verified is not None else ()),
        heading("Why"),
        paragraph(_sections(next(iter(campaigns.values()))[0]), note=True),
        table(
            ("operator", "lost when it fails alone (s)", "replica", "why"),
            _why(advice, trials),
            words=("why",),
            names=("replica",),
        ),
        heading("Other plans of the same budget"),
        table(
            ("plan by", "protects", "one failure (s)", "all others at once (s)", "completeness then"),
            _plans(advice, trials),
            words=("plan by", "protects"),
        ),
        cards([_plot(advice)]),
        f'<h2 id="{ALONE}">When one operator fails</h2>',
        paragraph(
            "The seconds of output that the failure of each operator costs under each plan, with a replica or without. The "
            "expected loss of one failure is the mean over the operators, because each is equally likely to fail.",
            note=True,
        ),
        table(("operator", *(OBJECTIVE_NAMES[each.candidate.objective] for each in advice.plans)), _alone(advice, trials)),
        f'<h2 id="{COST}">What replicas cost</h2>',
        f'<p class="note">CPU seconds per second of a replica of all tasks, at average rates, measured over the trace: '
        f'<a href="{PROFILE}"><code>{PROFILE}</code></a>. The operators of a PE are replicated together.</p>',
        table(("operator", "replicas", "CPU seconds per second", "of full replication"), _prices(advice)),
        heading("The trials"),
        *trials.parts(),
    ]
    return html_page(f"What to protect in {advice.application}", parts)


def _sections(campaign: Campaign) -> str:
    """Return an explanation of the metrics."""
    return (
        f"The output is scored section by section, each of {campaign.section:,} of the sources' numbers (seq); a section is wrong "
        f"if it is more than {campaign.threshold:.0%} off. Impact: the squared errors of wrong sections. Recovery: how many "
        "sections pass until the output is correct again. Deviation: how much quality depends on the moment of the failure. "
        "Correlation: between quality and the length of the outage."
    )


def _orders(advice: Advice, trials: _Trials) -> str:
    """Return the spread over arrival orders as a sentence."""
    if advice.widest is None:
        return "There was one arrival order; --repetitions tries others."
    quality, loss = advice.widest
    furthest = trials.linked(f"{quality:.2g}", loss)
    return f"Quality differed by at most {furthest} between arrival orders at any offset."


def _next(following: Next | None, trials: _Trials) -> str:
    if following is None:
        return paragraph("Everything has a replica, so a higher budget buys nothing.")
    return (
        f"<p>The next: {escape(following.description)}, for {_link(f'{following.cpu:.0%}', COST)} more of full "
        f"replication's CPU. Its failure would then cost {trials.figure(following.after)} s of output: "
        f"{_link(f'{following.remaining:.1%}', ALONE)} of the expected loss would remain.</p>"
    )


def _cost(advice: Advice) -> str:
    protected, replicas = advice.chosen.candidate.protected, advice.replicas
    cpu, share = sum(advice.prices.cpu[name] for name in protected), advice.prices.share(protected)
    return (
        f"<p>That is {_link(f'{replicas}', COST)} {'replica' if replicas == 1 else 'replicas'}, {_link(f'{cpu:.3g}', COST)} CPU "
        f"seconds per second at average rates: {_link(f'{share:.0%}', COST)} of the cost of full replication.</p>"
    )


def _prices(advice: Advice) -> list[tuple[str, ...]]:
    prices = advice.prices
    return [(name, f"{prices.tasks[name]}", f"{prices.cpu[name]:.3g}", f"{prices.share([name]):.1%}") for name in advice.ranking]


def _verified(advice: Advice, verified: Verified, trials: _Trials) -> list[str]:
    """Return the section on real kills, each with its stated cost."""

    def row(kill: Kill) -> tuple[str, ...]:
        stated = trials.linked(
            f"{kill.stated.least:.4g} to {kill.stated.greatest:.4g}, {kill.stated.cost_s:.3g} s",
            advice.loss_with_plan(kill.operator),
        )
        quality = "" if kill.quality is None else f"{kill.quality:.4g}" if isfinite(kill.quality) else "without measure"
        at, output = "", "the run was over" if kill.at_s is None else "not noticed"
        if kill.noticed:
            at, output = f"{kill.at_s:.0f}", Markup(f'<a href="{RUN}">{kill.inexact} of {kill.epochs}</a>')
        cost = "" if kill.cost_s is None or not isfinite(kill.cost_s) else f"{kill.cost_s:.3g}"
        return kill.operator, "yes" if kill.stated.protected else "no", at, output, quality, cost, stated, VERDICT_WORDS[kill.holds]

    columns = (
        "killed", "replica", "after (s)", "epochs not exact at first", "quality", "output that it cost (s)", "stated, by injection",
        "holds",
    )  # fmt: skip
    checks = [(verdict.name, VERDICT_WORDS[verdict.holds], verdict.reason) for verdict in verified.verdicts]
    return [
        heading("Real kills"),
        paragraph(
            f"{verified.conclusion} {verified.compared} The run can be looked at again: holdfast ui verify/run, from this folder."
        ),
        paragraph(verified.shown),
        table(columns, [row(kill) for kill in verified.kills]),
        table(("check", "holds", "found"), checks, words=("check", "found")),
    ]


def _why(advice: Advice, trials: _Trials) -> list[tuple[str, ...]]:
    protected = advice.chosen.candidate.protected
    return [
        (name, trials.figure(advice.single[name]), "yes" if name in protected else "no", advice.why(name))
        for name in advice.ranking
    ]


def _plans(advice: Advice, trials: _Trials) -> list[tuple[str, ...]]:
    return [
        (
            OBJECTIVE_NAMES[each.candidate.objective] + (" (chosen)" if each is advice.chosen else ""),
            each.candidate.description,
            _expected(each.single),
            trials.figure(each.together),
            f"{each.completeness:.3g}",
        )
        for each in advice.plans
    ]


def _alone(advice: Advice, trials: _Trials) -> list[tuple[str, ...]]:
    """Return a row per operator with the loss of its failure under each plan. The parts of an expected loss are sorted by name."""
    parts = [dict(zip(sorted(advice.single), each.single.parts, strict=True)) for each in advice.plans]
    return [(name, *(trials.figure(losses[name]) for losses in parts)) for name in advice.ranking]


def _trials(campaign: Campaign, view: CaseView, anchor: str) -> str:
    """Return the table of one case: impact and recovery of each offset, and the quality of every repetition."""
    (longest_s, pace) = view.outages[-1]
    rows = [
        (f"{offset.offset:,}", f"{offset.impact:,.4g}", f"{offset.recovery}", ", ".join(f"{quality:.4g}" for quality in repeated))
        for offset, repeated in zip(view.offsets, view.repeated, strict=True)
    ]
    case = campaign.case(view.case)
    outage_s = case.outage(longest_s)
    lost = f"failed for {view.tuples[-1]:,} source tuples" if case.at_once else f"{view.tuples[-1]:,} tuples lost"
    caption = f"{view.case}: {lost} ({outage_s:g} s at the {pace} rate)"
    columns = ("offset", "impact", "sections until right", f"quality in {campaign.repetitions} repetitions")
    return f'<h3 id="{anchor}">{escape(caption)}</h3>{table(columns, rows)}'


def _plot(advice: Advice) -> str:
    def draw(axes: Axes) -> None:
        names = [fill(OBJECTIVE_NAMES[each.candidate.objective], 15) for each in advice.plans]
        for at, (label, values) in enumerate(
            (
                ("one failure", [each.single.mean for each in advice.plans]),
                ("all others at once", [each.together.mean for each in advice.plans]),
            )
        ):
            axes.bar([n + 0.4 * at for n in range(len(names))], values, width=0.38, color=SERIES[at], label=label)
        axes.axhline(advice.unprotected.mean, color=INK, linewidth=1, linestyle=":", label="one failure, no replicas")
        axes.set_xticks([n + 0.2 for n in range(len(names))], names)
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="y", nbins=5)
        axes.set(xlabel="plan by", ylabel="output lost (s)")
        axes.figure.legend(loc="outside lower center", ncols=3)

    return draw_svg(draw, label="Output lost by plan, in seconds")


def _expected(expected: Expected) -> Markup:
    return _spread(_link(f"{expected.mean:,.4g}", ALONE), expected.least, expected.greatest)


def _spread(figure: Markup, least: float, greatest: float) -> Markup:
    return Markup(f"{figure} ({least:,.4g} to {greatest:,.4g})")


def _link(text: str, anchor: str | None) -> Markup:
    return Markup(escape(text) if anchor is None else f'<a href="#{anchor}">{escape(text)}</a>')


def _and(names: Sequence[str]) -> str:
    """Return the names joined by commas and "and".

    >>> _and(["a", "b", "c"]), _and(["a"]), _and([])
    ('a, b and c', 'a', 'nothing')
    """
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part) or "nothing"
