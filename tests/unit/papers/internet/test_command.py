"""The command holdfast reproduce internet."""

import json

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast_papers.internet.findings import findings as internet_findings


def test_report_shows_that_replicated_plans_lose_less(tmp_path):
    words = ["reproduce", "internet", "--applications", "4", "--racks", "2", "--workers", "1", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(root, words)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    days = document["days"]
    assert days["calm/NR"]["lost"] < 0.02 * days["rack/NR"]["lost"]  # so few PEs are too heavy for a node in the fullest minute
    assert days["calm/SR"]["lost"] > days["calm/NR"]["lost"]  # every replica is active when the nodes cannot carry them
    assert days["calm/NR"]["recoveries"] == 0
    assert document["yearly"]["SR"]["calm_days"] == pytest.approx(365 * days["calm/SR"]["lost"])
    assert "lost without failures (days of all tuples)" in (tmp_path / "internet.html").read_text()
    for kind in ("rack", "pdu"):
        lost = {variant: days[f"{kind}/{variant}"]["lost"] for variant in ("NR", "LAAR", "PPA", "combined")}
        assert min(lost.values()) > -1e-6
        assert lost["LAAR"] < lost["NR"]
        assert max(lost["PPA"], lost["combined"]) < 0.1 * lost["NR"]
    assert (tmp_path / "cost-and-loss.svg").read_text().count("var(--") == 0
    held = {finding["name"]: finding["holds"] for finding in document["findings"]}
    assert held["LAAR loses less than NR when a rack or a power unit fails"]
    for record in days.values():
        record |= {"lost": 0.1, "waiting_s": 1.0, "cpu_s": 1.0}
    assert [finding.name for finding in internet_findings(days) if finding.holds] == []
