"""The command holdfast reproduce laar."""

import json

from click.testing import CliRunner

from holdfast.cli.main import root


def called(*words: object):
    return CliRunner().invoke(root, [str(word) for word in words])


def test_study_writes_report_and_resumes(tmp_path):
    words = ("reproduce", "laar", "--applications", "1", "--workers", "1", "--seconds", "2", "--out", tmp_path / "laar", "--json")
    first, second = called(*words), called(*words)
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == json.loads(second.stdout)
    document = json.loads(first.stdout)
    assert document["applications"] == 1
    assert {finding["name"] for finding in document["findings"]} >= {
        "NR puts out nothing in the worst case",
        "LAAR keeps its IC promise in the worst case",
        "LAAR keeps its IC promise if input rates have no glitches",
    }
    assert "Figure 12" in (tmp_path / "laar" / "laar.html").read_text()
    other = called(*words[:6], "--seconds", "3", *words[8:])
    assert "holds strategies made with" in str(other.exception)
