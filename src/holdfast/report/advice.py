"""The one page of an advice: what to protect, what it costs, what to expect; every figure leads to the trials behind it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from holdfast.advise.advice import Advice, Next
from holdfast.advise.loss import Expected, Loss
from holdfast.assess.assessment import Assessment, CaseView
from holdfast.assess.campaign import Campaign
from holdfast.report.page import heading, page, paragraph
from holdfast.report.plot import INK, SERIES, drawn

NAMES = {
    "measured": "measured: the costliest failures",
    "criticality": "measured, weighed along the graph",
    "of": "output fidelity (PPA)",
    "ic": "internal completeness (LAAR)",
}


def advice_page(advice: Advice, campaigns: Mapping[str, tuple[Campaign, Assessment]], verified: Sequence[str] = ()) -> str:
    """The page. `campaigns` are the assessments behind it, by the folder that each lies in; `verified` what real kills showed."""
    chosen, following = advice.chosen, advice.next_unit()
    document = advice.document()
    cost = document["cost"]
    expected = (
        f"When one operator fails, the output's expected quality impact falls from {_linked(advice.unprotected)} "
        f"to {_linked(chosen.single)}: {advice.left:.1%} is left. When everything without a replica fails at once it is "
        f"{_linked_loss(chosen.together)}."
    )
    parts = [
        paragraph(f"Protect {_and(chosen.candidate.protected)}."),
        paragraph(
            f"That is {cost['replicas']} replicas, {cost['cpu_s_per_s']:.3g} CPU seconds a second at average rates: "
            f"{cost['share_of_full']:.0%} of what replicating everything takes."
        ),
        f"<p>{expected}</p>",
        paragraph(
            f"Impacts are those of {advice.outage_s:g} s of outage at the peak rate, or of a failover of {advice.failover_s:g} s "
            "where there is a replica (DEBS'11, Eq. 8); in brackets the least and the greatest over the offsets that were tried. "
            f"Between arrival orders, drawn by seed, quality differed by at most {advice.by_seed:.2g} at any offset.",
            note=True,
        ),
        _next(following),
        *(paragraph(text) for text in verified),
        heading("Why"),
        _table(
            ["operator", "impact when it fails alone", "replica", "why"],
            [
                [
                    escape(name),
                    _linked_loss(advice.single[name]),
                    "yes" if name in chosen.candidate.protected else "",
                    escape(advice.why[name]),
                ]
                for name in advice.ranking
            ],
            words=["why"],
        ),
        heading("Other plans of the same budget"),
        _table(
            ["plan by", "protects", "one failure", "all others at once"],
            [
                [
                    escape(NAMES[each.candidate.objective]) + (" (chosen)" if each is chosen else ""),
                    escape(", ".join(each.candidate.protected)),
                    _linked(each.single),
                    _linked_loss(each.together),
                ]
                for each in advice.weighed
            ],
            words=["protects"],
        ),
        _plot(advice),
        heading("The trials"),
    ]
    for folder, (campaign, assessment) in campaigns.items():
        parts.append(
            f'<p>{campaign.size:,} trials, seed {campaign.seed}, in folder <a href="{escape(folder)}/report.html">'
            f"<code>{escape(folder)}</code></a>; the score is <code>{escape(assessment.score.expression)}</code>.</p>"
        )
        parts += [_trials(campaign, view) for view in assessment.cases]
    return page(f"What to protect in {advice.application}", parts)


def _next(following: Next | None) -> str:
    if following is None:
        return paragraph("Everything has a replica: there is nothing more to buy.")
    return (
        f"<p>The next replica should be of {escape(following.operator)}, whose failure would then cost "
        f"{_linked_loss(following.after)}: {following.left:.1%} of the expected loss would be left.</p>"
    )


def _trials(campaign: Campaign, view: CaseView) -> str:
    """What each offset gave: the impact, and the quality of every repetition."""
    (outage_s, pace) = view.outages[-1]
    rows = [
        [
            f"{offset.offset:,}",
            f"{offset.impact:,.4g}",
            f"{offset.recovery}",
            escape(", ".join(f"{quality:.4g}" for quality in repeated)),
        ]
        for offset, repeated in zip(view.offsets, view.repeated, strict=True)
    ]
    caption = f"{view.case}: {view.tuples[-1]:,} tuples lost ({outage_s:g} s at the {pace} rate)"
    table = _table(["offset", "impact", "sections until right", f"quality in {campaign.repetitions} repetitions"], rows)
    return f'<h3 id="{_anchor(view.case)}">{escape(caption)}</h3>{table}'


def _plot(advice: Advice) -> str:
    def draw(axes):  # type: ignore[no-untyped-def]  # as drawn() calls it
        names = [each.candidate.objective for each in advice.weighed]
        for at, (label, values) in enumerate(
            (
                ("one failure", [each.single.mean for each in advice.weighed]),
                ("all others at once", [each.together.mean for each in advice.weighed]),
            )
        ):
            axes.bar([n + 0.4 * at for n in range(len(names))], values, width=0.38, color=SERIES[at], label=label)
        axes.axhline(advice.unprotected.mean, color=INK, linewidth=1, linestyle=":", label="one failure, no replicas")
        axes.set_xticks([n + 0.2 for n in range(len(names))], names)
        axes.set_yscale("symlog")
        axes.set_ylabel("expected quality impact")
        axes.legend()

    return f"<div class=card>{drawn(draw, label='Expected quality impact by plan')}</div>"


def _linked(expected: Expected) -> str:
    case = max(expected.parts, key=lambda loss: (loss.mean, loss.case)).case
    return _figure(expected.mean, expected.least, expected.greatest, case)


def _linked_loss(loss: Loss) -> str:
    return _figure(loss.mean, *loss.spread, loss.case)


def _figure(mean: float, least: float, greatest: float, case: str) -> str:
    return f'<a href="#{_anchor(case)}">{mean:,.4g}</a> ({least:,.4g} to {greatest:,.4g})'


def _anchor(case: str) -> str:
    return "trials-" + re.sub(r"[^A-Za-z0-9]+", "-", case).strip("-")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already; the columns in `words` hold sentences."""
    head = "".join(f"<th class=name>{escape(column)}</th>" for column in columns)
    kinds = ["words" if column in words else "name" for column in columns]
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
