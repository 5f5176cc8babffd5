"""The figures and findings of DEBS'11, section 6, compared with ours. Pure functions of assessments."""

from collections.abc import Mapping, Sequence

from holdfast.app import Graph
from holdfast.assess import Assessment, CaseView, correlation, position
from holdfast_papers.finding import Finding

TABLE_2 = {
    "market": ("Source", -0.38, 0.21, "R", 340, 21.23),
    "trade_filter": ("TradeFilter", 0.97, 0.76, "R", 340, 48.70),
    "quote_filter": ("QuoteFilter", -1.00, 0.00, "A", 6, 6.00),
    "vwap": ("VWAP", 0.99, 0.14, "R", 73, 30.87),
    "bargain_index": ("BargainIndex", -0.69, 0.08, "A", 43, 7.89),
}
"""For each operator: its name in the paper, C^oq, sigma^q, A^q, R^lq, I^lq (Table 2)."""

GROUP = ("trade_filter", "aggregator", "vwap")
"""The group that the paper replicates (Figure 12), with a failover of 2 s."""
FAILOVER_S = 2.0

ALIKE = 0.9
"""The least rank correlation of two rankings of five that count as alike: at most two neighbours are swapped."""
SHARED = 0.05
"""The largest relative difference of two recovery times that count as equal. In the paper Source and TradeFilter lose the same
trades; here each loses tuples by its own rate, so the lost trades differ by a few."""


def table_rows(assessment: Assessment) -> list[tuple[str, ...]]:
    """Return the rows of Table 2, with the paper's values and ours."""
    rows: list[tuple[str, ...]] = []
    for name, (title, c, sigma, anova, r, i) in TABLE_2.items():
        view = assessment.case(name)
        rows.append(
            (
                f"{title} ({name})",
                f"{c:.2f}",
                f"{view.outage_impact:.2f}",
                f"({sigma:.2f}, {anova})",
                str(view.dependency),
                str(r),
                str(view.recovery),
                f"{i:.2f}",
                f"{view.impact:.2f}",
            )
        )
    return rows


def findings(assessments: Sequence[Assessment], graph: Graph, protected: str) -> list[Finding]:
    """Check every finding of the paper. The first assessment must be by the sum of gains, as in the paper."""
    first = assessments[0]
    view = {name: first.case(name) for name in TABLE_2}
    return [
        *_about_impact(view),
        *_about_prediction(view),
        *_about_recovery(view),
        _about_protection(view, first.case(protected)),
        _about_scores(assessments),
        _about_position(view, graph),
    ]


def _about_impact(view: Mapping[str, CaseView]) -> list[Finding]:
    ranked = sorted(view.values(), key=lambda v: (-v.impact, v.case))
    order = " > ".join(f"{v.case} {v.impact:.2f}" for v in ranked)
    paper = " > ".join(f"{title} {i:.2f}" for title, *_, i in sorted(TABLE_2.values(), key=lambda figures: -figures[-1]))
    return [
        Finding("TradeFilter has the largest quality impact", paper, order, ranked[0].case == "trade_filter"),
        Finding("QuoteFilter has the smallest quality impact", paper, order, ranked[-1].case == "quote_filter"),
    ]


def _about_prediction(view: Mapping[str, CaseView]) -> list[Finding]:
    quote, trade, vwap, source = (view[name] for name in ("quote_filter", "trade_filter", "vwap", "market"))
    source_at = source.turning or source.worst
    return [
        Finding("QuoteFilter's correlation is -1.00", "-1.00", f"{quote.outage_impact:.2f}", round(quote.outage_impact, 2) == -1.0),
        Finding(
            "QuoteFilter's data dependency is (0.00, accepted)",
            "(0.00, A)",
            str(quote.dependency),
            round(quote.dependency.deviation, 2) == 0.0 and quote.dependency.accepted,
        ),
        Finding(
            "TradeFilter and VWAP correlate above 0.9 with the outage",
            "TradeFilter 0.97, VWAP 0.99",
            f"TradeFilter {trade.outage_impact:.2f}, VWAP {vwap.outage_impact:.2f}",
            trade.outage_impact > 0.9 and vwap.outage_impact > 0.9,
        ),
        Finding(
            "Source changes sign with the outage",
            "too much below 5,000 lost tuples, too little above 15,000 (Figure 8a)",
            f"quality at offset {source_at.offset:,}, from the shortest outage to the longest: "
            f"{', '.join(f'{quality:.3f}' for quality in source.by_outage(source_at))}",
            source.changes_sign,
        ),
    ]


def _about_recovery(view: Mapping[str, CaseView]) -> list[Finding]:
    longest = max(v.recovery for v in view.values())
    source, trade, vwap = view["market"], view["trade_filter"], view["vwap"]
    share_longest = abs(source.recovery - trade.recovery) <= SHARED * longest and longest == max(source.recovery, trade.recovery)
    ours = ", ".join(f"{v.case} {v.recovery}" for v in sorted(view.values(), key=lambda v: (-v.recovery, v.case)))
    paper = ", ".join(f"{title} {r}" for title, *_, r, _ in sorted(TABLE_2.values(), key=lambda figures: -figures[-2]))
    return [
        Finding("Source and TradeFilter share the longest recovery time", paper, ours, share_longest),
        Finding(
            "VWAP recovers faster than Source",
            "73 against 340",
            f"{vwap.recovery} against {source.recovery}",
            vwap.recovery < source.recovery,
        ),
        Finding(
            "VWAP overestimates more than Source",
            "up to 113% too much, against 59% (Figure 10)",
            f"up to {_largest_overestimate(vwap) - 1:.0%} too much, against {_largest_overestimate(source) - 1:.0%}",
            _largest_overestimate(vwap) > _largest_overestimate(source),
        ),
    ]


def _largest_overestimate(view: CaseView) -> float:
    """Return the largest local quality at any offset. Only sections whose golden score is at least a tenth of the mean count."""
    best = 0.0
    for of_offset in view.offsets:
        golden, quality = of_offset.local_golden, of_offset.local_quality
        solid = golden > 0.1 * golden.mean()
        best = max(best, float(quality[solid].max(initial=0.0)))
    return best


def _about_protection(view: Mapping[str, CaseView], after: CaseView) -> Finding:
    before = view["trade_filter"]
    return Finding(
        "replicating {TradeFilter, Aggregator, VWAP} cuts impact and recovery time more than tenfold",
        "impact 48.70 to 2, recovery 340 to 2",
        f"impact {before.impact:.2f} to {after.impact:.2f}, recovery {before.recovery} to {after.recovery}",
        before.impact > 10 * after.impact and before.recovery > 10 * after.recovery,
    )


def _about_scores(assessments: Sequence[Assessment]) -> Finding:
    orders = {}
    for assessment in assessments:
        orders[assessment.score.expression] = [v.case for v in assessment.ranking if v.case in TABLE_2]
    expected = next(iter(orders.values()))
    ranks = list(range(len(expected)))
    agree = [correlation(ranks, [order.index(case) for case in expected]) for order in orders.values()]
    ends = all((order[0], order[-1]) == (expected[0], expected[-1]) for order in orders.values())
    ours = "; ".join(f"{score}: {' > '.join(order)}" for score, order in orders.items())
    return Finding(
        "sum, mean and count as score rank operators alike",
        "the relative criticality was similar (section 6.4)",
        f"{ours} (least rank correlation {min(agree):.2f})",
        ends and min(agree) >= ALIKE,
    )


def _about_position(view: Mapping[str, CaseView], graph: Graph) -> Finding:
    one, other = view["trade_filter"], view["quote_filter"]
    same = position(graph, "trade_filter") == position(graph, "quote_filter")
    apart = one.impact / other.impact if other.impact else float("inf")
    return Finding(
        "position in the graph does not predict criticality",
        "TradeFilter and QuoteFilter have the same position, but impacts differ 8.1 times",
        f"they are {'equally' if same else 'not equally'} far from the source, and their impacts differ {apart:.1f} times",
        same and apart > 2,
    )
