"""Figures and findings of LAAR, section 5.3."""

import pytest

from holdfast_papers.laar.variants_findings import findings as laar_findings
from holdfast_papers.laar.variants_findings import ratios
from holdfast_papers.laar.variants_study import VARIANTS as LAAR_VARIANTS


def test_ratio_to_less_than_one_tuple_is_left_out():
    def record(nr: float, other: float) -> dict[str, object]:
        runs = {f"{variant}/best": {"missed": other} for variant in LAAR_VARIANTS}
        return {"runs": runs | {"NR/best": {"missed": nr}}}

    records = [record(0.0, 50.0), record(0.02, 50.0), record(2.0, 50.0)]
    assert ratios(records, "missed", "best", least=1.0)["SR"] == [25.0]
    assert ratios(records, "missed", "best")["SR"] == [2500.0, 25.0]


def laar_record(low: float, high: float) -> dict[str, object]:
    """Figures of an application as section 5.3 describes them; where they vary, they are `low` or `high` of their range."""
    best = {
        "NR": (100.0, 1.0, 10.0),
        "SR": (185.0, 30.0, 6.7),
        "GRD": (175.0, 3.0, 6.2 + 3.6 * high),
        "L.5": (140.0, 2.0, 9.6 + 0.1 * high),
        "L.6": (150.0, 2.0, 9.6 + 0.1 * high),
        "L.7": (160.0, 2.0, 9.6 + 0.1 * high),
    }
    worst = {"NR": 0.0, "SR": 0.95, "GRD": 0.35 + 0.6 * high, "L.5": 0.5, "L.6": 0.6, "L.7": 0.7}
    crash = {"NR": 0.95, "SR": 0.95, "GRD": 0.8 + 0.19 * low, "L.5": 0.96, "L.6": 0.97, "L.7": 0.98}
    runs = {}
    for v in LAAR_VARIANTS:
        names = ("cpu_s", "missed", "peak_rate")
        runs[f"{v}/best"] = dict(zip(names, best[v], strict=True)) | {"processed": 1.0}
        for scenario, share in (("worst", worst[v]), ("worst, even", worst[v]), ("crash", crash[v])):
            runs[f"{v}/{scenario}"] = {"processed": share, "ic": share, "high_s": 100.0}
    return {"runs": runs}


def test_findings_of_laar_follow_the_figures():
    records = [laar_record(0.0, 1.0), laar_record(1.0, 0.0)]
    assert [finding.name for finding in laar_findings(records) if not finding.holds] == []
    for record in records:
        for figures in record["runs"].values():
            figures |= dict.fromkeys(figures, 1.0)
    assert [finding.name for finding in laar_findings(records) if finding.holds] == [
        "LAAR's output at the peak is within 9 % of NR's",
        "LAAR keeps its IC promise in the worst case",
        "LAAR keeps its IC promise if input rates have no glitches",
        "with one node crashed, LAAR's IC is much higher than promised",
        "with one node crashed, L.5 is like NR",
    ]


@pytest.mark.parametrize(
    ("run", "figures", "broken"),
    [
        ("L.5/best", {"peak_rate": 9.0}, "LAAR's output at the peak is within 9 % of NR's"),
        ("L.7/worst", {"processed": 0.6}, "LAAR keeps its IC promise in the worst case"),
        ("L.7/worst, even", {"ic": 0.6}, "LAAR keeps its IC promise if input rates have no glitches"),
        ("L.6/crash", {"processed": 0.65}, "with one node crashed, LAAR's IC is much higher than promised"),
        ("NR/crash", {"processed": 0.7}, "with one node crashed, L.5 is like NR"),
    ],
)
def test_finding_of_laar_fails_with_other_figures(run, figures, broken):
    records = [laar_record(0.0, 1.0), laar_record(1.0, 0.0)]
    for record in records:
        record["runs"][run] |= figures
    assert broken in [finding.name for finding in laar_findings(records) if not finding.holds]
