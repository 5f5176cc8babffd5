"""Which objective to plan by: the page of the evaluation, and its tables and picture by themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from holdfast.report import FAINT, SERIES, cards, drawn, heading, html_page, paragraph, table, verdicts
from holdfast_papers.objectives.study import ADVISED, OBJECTIVES, PLANNERS, Foretold, Studied

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
    "impact (Eq. 8); wrong is how much of the output differs, in outages: 1 is as much as an outage's worth of it."
)


def objectives_page(document: Mapping[str, Any], studied: Mapping[str, Studied]) -> str:
    """The page."""
    found = [(finding["name"], finding["holds"], finding["ours"]) for finding in document["findings"]]
    return html_page(
        "Which objective to plan by",
        [
            paragraph(
                f"Where none can be tried first, plan by '{NAMES[document['default']]}': such plans fall least short of the best."
            ),
            paragraph(f"{NOTE} Made by: {document['command']}", note=True),
            verdicts(found),
            heading("What was foretold"),
            paragraph("Rank correlation of what each objective foretold with the impact, and with how much was wrong."),
            table(*_agreement(document), names=["application"]),
            cards([foretold_picture(document)]),
            cards([_scatter(name, study.sets) for name, study in studied.items()]),
            heading("What plans leave"),
            paragraph("Impact and wrong output when everything without a replica fails at once, by who made the plan."),
            table(*_plans(studied), names=["application"]),
            heading("Who is protected"),
            table(
                ["application", "protected", "plan by", "protects"],
                [
                    [name, str(each.budget), each.objective, ", ".join(each.protected) or "nothing"]
                    for name, study in studied.items()
                    for each in study.plans
                ],
                names=["application", "plan by"],
                words=["protects"],
            ),
        ],
    )


def objectives_tables(document: Mapping[str, Any], studied: Mapping[str, Studied]) -> str:
    """The tables in Markdown, with the command that made them."""
    short = document["shortfall"]
    rows = [[NAMES[name], f"{short['impact'][name]:.2f}", f"{short['wrong'][name]:.2f}"] for name in (ADVISED, *PLANNERS)]
    parts = [
        f"`{document['command']}`",
        _markdown(*_plans(studied)),
        _markdown(["plan by", "short of the best, by impact", "by wrong output"], rows),
        _markdown(*_agreement(document)),
    ]
    return "\n\n".join(parts) + "\n"


def foretold_picture(document: Mapping[str, Any]) -> str:
    """How well each objective orders failures by their impact, application by application."""
    rows = document["agreement"]["impact"]

    def draw(axes: Axes) -> None:
        axes.axhline(0.0, color=FAINT, linewidth=1)
        for number, objective in enumerate(OBJECTIVES):
            places = [at + 0.2 * (number - 1.5) for at in range(len(rows))]
            axes.bar(places, [row[objective] for row in rows.values()], width=0.18, color=SERIES[number], label=NAMES[objective])
        axes.set_xticks(range(len(rows)), [name.replace("_", "\n") for name in rows])
        axes.set(ylim=(-1.05, 1.05), ylabel="rank correlation", title="foretold and measured impact of failures")
        axes.figure.legend(loc="outside lower center", ncols=2)

    return drawn(draw, label="Rank correlation of foretold and measured impact", width=max(5.2, 1.1 * len(rows)), height=3.6)


def _scatter(name: str, of: Sequence[Foretold]) -> str:
    def draw(axes: Axes) -> None:
        for number, objective in enumerate(OBJECTIVES[:3]):
            said = [each.foretold[objective] for each in of]
            axes.plot(said, [each.measured.impact for each in of], "o", color=SERIES[number], label=objective)
        axes.set(xlabel="foretold loss", ylabel="measured impact", title=name)
        axes.legend()

    return drawn(draw, label=f"Foretold and measured loss of {name}")


def _agreement(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Per application the correlations of each objective: with the impact, and with how much was wrong."""
    impact, wrong = ({**document["agreement"][by], "mean": document["mean"][by]} for by in ("impact", "wrong"))
    rows = [[name, *(f"{row[each]:+.2f}, {wrong[name][each]:+.2f}" for each in OBJECTIVES)] for name, row in impact.items()]
    return ["application", *(NAMES[each] for each in OBJECTIVES)], rows


def _plans(studied: Mapping[str, Studied]) -> tuple[list[str], list[list[str]]]:
    """Per application and budget what every objective's plan loses: the impact, and how much was wrong."""
    rows = []
    for name, study in studied.items():
        for budget in sorted({plan.budget for plan in study.plans}):
            lost = {plan.objective: plan.lost for plan in study.plans if plan.budget == budget}
            figures = [f"{lost[each].impact:,.4g}, {lost[each].wrong:.2f}" for each in PLANNERS]
            rows.append([name, str(budget), *figures])
    return ["application", "protected", *(NAMES[each] for each in PLANNERS)], rows


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(_markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)
