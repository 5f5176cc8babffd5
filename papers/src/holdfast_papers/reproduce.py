"""The command `holdfast reproduce`: one subcommand per study. A study is imported when it is called."""

import click

from holdfast.cli import CommandGroup

STUDIES = {
    "all": ("holdfast_papers.all_studies:all_", "Every study, and one report of all findings."),
    "debs11": ("holdfast_papers.debs11.command:debs11", "Fault injection into Bargain Discovery (DEBS'11)."),
    "internet": ("holdfast_papers.internet.command:internet", "A day of a data center under five plans, simulated."),
    "isorc16": ("holdfast_papers.isorc16.command:isorc16", "Prediction: algorithms, and late PEs in real runs (ISORC'16)."),
    "laar": ("holdfast_papers.laar.command:laar", "Replication variants on simulated clusters (LAAR, Figures 9 to 12)."),
    "laar-search": (
        "holdfast_papers.laar.search_command:laar_search",
        "FT-Search over a corpus of applications (LAAR, Figures 4 to 6).",
    ),
    "objectives": (
        "holdfast_papers.objectives.command:objectives",
        "Which planning objective predicts the damage of failures.",
    ),
    "laar-pipeline": (
        "holdfast_papers.laar.pipeline_command:laar_pipeline",
        "Activation by load against static replication, real processes (LAAR, Figure 3).",
    ),
    "system-s": (
        "holdfast_papers.system_s.command:system_s",
        "Recovery of a killed orchestrator against a new start (System-S, Figure 8).",
    ),
    "ppa": ("holdfast_papers.ppa.command:ppa", "Recovery, simulated and real, and tentative output (PPA, Figures 7 to 13)."),
    "ppa-plans": ("holdfast_papers.ppa.plans_command:ppa_plans", "Planners over random topologies (PPA, Figure 14)."),
}
TOOLS = {
    "generate": ("holdfast_papers.generate:generate", "Write random applications or topologies like those of the papers."),
    "trees": ("holdfast_papers.ppa.trees_command:list_trees", "Count the minimal complete trees of a task topology (PPA)."),
}


@click.command(cls=CommandGroup, locations={**STUDIES, **TOOLS})
def reproduce() -> None:
    """Repeat a paper's evaluation and compare its figures with ours.

    \b
    Example:
      holdfast reproduce debs11 --out debs11
    """
