"""The page of the study of objectives, and its tables and picture as separate files."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from holdfast.report import FAINT, SERIES, cards, draw_svg, heading, html_page, paragraph, table, verdicts
from holdfast_papers.objectives.study import ADVISED, OBJECTIVES, PLANNERS, ApplicationStudy, FailureSet

NAMES = {
    ADVISED: "the better of the two measured, tried out (advise)",
    "criticality": "measured, weighed along the graph",
    "measured": "measured: the costliest failures",
    "of": "output fidelity (PPA)",
    "ic": "internal completeness (LAAR)",
    "alone": "the greatest single impact",
}
NOTE = (
    "Operators of an application fail together for some epochs at the peak rate, at five offsets. Impact is DEBS'11's quality "
    "impact (Eq. 8). Wrong output is measured in outages: 1 is the output of one outage."
)


def objectives_page(document: Mapping[str, Any], study_of: Mapping[str, ApplicationStudy]) -> str:
    """Return the page."""
    verdict_rows = [(finding["name"], finding["holds"], finding["ours"]) for finding in document["findings"]]
    return html_page(
        "Which objective to plan by",
        [
            paragraph(
                f"If plans cannot be tried first, plan by '{NAMES[document['default']]}': its plans are closest to the best."
            ),
            paragraph(f"{NOTE} Made by: {document['command']}", note=True),
            verdicts(verdict_rows),
            heading("Predicted damage"),
            paragraph("Rank correlation of the predicted loss with the impact, and with the wrong output."),
            table(*_agreement(document), names=["application"]),
            cards([correlation_picture(document)]),
            cards([_scatter(name, study.sets) for name, study in study_of.items()]),
            heading("Losses of plans"),
            paragraph("Impact and wrong output when everything without a replica fails at once, by objective."),
            table(*_plans(study_of), names=["application"]),
            heading("Protected operators"),
            table(
                ["application", "protected", "plan by", "protects"],
                [
                    [name, str(each.budget), each.objective, ", ".join(each.protected) or "nothing"]
                    for name, study in study_of.items()
                    for each in study.plans
                ],
                names=["application", "plan by"],
                words=["protects"],
            ),
        ],
    )


def objectives_tables(document: Mapping[str, Any], study_of: Mapping[str, ApplicationStudy]) -> str:
    """Return the tables in Markdown, with the command."""
    short = document["shortfall"]
    rows = [[NAMES[name], f"{short['impact'][name]:.2f}", f"{short['wrong'][name]:.2f}"] for name in (ADVISED, *PLANNERS)]
    parts = [
        f"`{document['command']}`",
        _markdown(*_plans(study_of)),
        _markdown(["plan by", "short of the best, by impact", "by wrong output"], rows),
        _markdown(*_agreement(document)),
    ]
    return "\n\n".join(parts) + "\n"


def correlation_picture(document: Mapping[str, Any]) -> str:
    """Draw how well each objective orders failures by their impact, for each application."""
    rows = document["agreement"]["impact"]

    def draw(axes: Axes) -> None:
        axes.axhline(0.0, color=FAINT, linewidth=1)
        for number, objective in enumerate(OBJECTIVES):
            places = [at + 0.2 * (number - 1.5) for at in range(len(rows))]
            axes.bar(places, [row[objective] for row in rows.values()], width=0.18, color=SERIES[number], label=NAMES[objective])
        axes.set_xticks(range(len(rows)), [name.replace("_", "\n") for name in rows])
        axes.set(ylim=(-1.05, 1.05), ylabel="rank correlation", title="predicted and measured impact of failures")
        axes.figure.legend(loc="outside lower center", ncols=2)

    return draw_svg(draw, label="Rank correlation of predicted and measured impact", width=max(5.2, 1.1 * len(rows)), height=3.6)


def _scatter(name: str, of: Sequence[FailureSet]) -> str:
    def draw(axes: Axes) -> None:
        for number, objective in enumerate(OBJECTIVES[:3]):
            predicted = [each.foretold[objective] for each in of]
            axes.plot(predicted, [each.measured.impact for each in of], "o", color=SERIES[number], label=objective)
        axes.set(xlabel="predicted loss", ylabel="measured impact", title=name)
        axes.legend()

    return draw_svg(draw, label=f"Predicted and measured loss of {name}")


def _agreement(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return for each application the correlations of each objective with the impact and with the wrong output."""
    impact, wrong = ({**document["agreement"][by], "mean": document["mean"][by]} for by in ("impact", "wrong"))
    rows = [[name, *(f"{row[each]:+.2f}, {wrong[name][each]:+.2f}" for each in OBJECTIVES)] for name, row in impact.items()]
    return ["application", *(NAMES[each] for each in OBJECTIVES)], rows


def _plans(study_of: Mapping[str, ApplicationStudy]) -> tuple[list[str], list[list[str]]]:
    """Return for each application and budget the losses of every objective's plan: impact and wrong output."""
    rows = []
    for name, study in study_of.items():
        for budget in sorted({plan.budget for plan in study.plans}):
            lost = {plan.objective: plan.lost for plan in study.plans if plan.budget == budget}
            figures = [f"{lost[each].impact:,.4g}, {lost[each].wrong:.2f}" for each in PLANNERS]
            rows.append([name, str(budget), *figures])
    return ["application", "protected", *(NAMES[each] for each in PLANNERS)], rows


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> print(_markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)
