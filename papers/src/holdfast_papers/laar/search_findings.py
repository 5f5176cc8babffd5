"""The paper's statements about FT-Search (section 4.5, Figures 4 to 6), checked with the runs of the paper's own algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast_papers.finding import Finding
from holdfast_papers.laar.search_study import PAPER, Run, first_solutions, outcomes, prunings

SOLVER = "ft-search-paper"
FEW = 0.1
"""The largest share of the runs that counts as "a small number"."""


def findings(runs: Iterable[Run]) -> list[Finding]:
    """Check each statement for which there are runs of the paper's algorithm."""
    own = [run for run in runs if run.solver == SOLVER]
    return [*_figure_4(own), *_figure_5(own), *_figure_6(own)] if own else []


def _figure_4(own: Sequence[Run]) -> Iterator[Finding]:
    shares = {sla: share for (_, sla), share in outcomes(own).items()}
    undecided = [share["TMO"] for share in shares.values()]
    yield Finding(
        "Figure 4: few runs end with neither a solution nor a proof",
        "a small number (10 minutes on six cores each)",
        ", ".join(f"IC {sla:g}: {share['TMO']:.0%}" for sla, share in shares.items()),
        max(undecided) <= FEW,
    )
    if len(shares) > 1:
        proved = [share["NUL"] for share in shares.values()]
        yield Finding(
            "Figure 4: a higher IC constraint leaves more applications without a solution",
            "grows with the constraint",
            ", ".join(f"IC {sla:g}: {share['NUL']:.0%}" for sla, share in shares.items()),
            proved == sorted(proved) and proved[0] < proved[-1],
        )


def _figure_5(own: Sequence[Run]) -> Iterator[Finding]:
    first = first_solutions(own)
    if first.mean_cost is not None:
        yield Finding(
            "Figure 5a: the first solution costs little more than the optimum",
            f"{PAPER['first_cost']:g} times on average",
            f"{first.mean_cost:.3f} times on average, over {len(first.cost)} runs that found it",
            first.mean_cost <= 1.1,
        )
    if first.mean_time is not None:
        yield Finding(
            "Figure 5b: the first solution comes much sooner than the optimum",
            f"after {PAPER['first_time']:g} of the time",
            f"after {first.mean_time:.2f} of the time, over {len(first.time)} runs that found it",
            first.mean_time <= 0.5,
        )


def _figure_6(own: Sequence[Run]) -> Iterator[Finding]:
    cuts = {rule: cut for rule, cut in prunings(own).items() if any(run.prunings for run in own)}
    if not cuts:
        return
    often = sorted(cuts, key=lambda rule: (-cuts[rule][0], rule))
    high = sorted(cuts, key=lambda rule: (-cuts[rule][1], rule))
    yield Finding(
        "Figure 6: COMPL prunes most often, DOM after it, COST least often",
        "in this order, CPU between them",
        ", ".join(f"{rule} {cuts[rule][0]:.0%}" for rule in often),
        often[:2] == ["COMPL", "DOM"] and often[-1] == "COST",
    )
    yield Finding(
        "Figure 6: CPU cuts the largest branches, COST the smallest",
        "CPU first, COST last",
        ", ".join(f"{rule} at a height of {cuts[rule][1]:.1f}" for rule in high),
        high[0] == "CPU" and high[-1] == "COST",
    )
