"""Where a plan, its page and its words go, and what is refused before anything is planned."""

import json
from pathlib import Path

import pytest

from holdfast.cli.plan_output import write_output
from holdfast.documents.document import read_document
from holdfast.errors import DocumentError, HoldfastError
from holdfast.planning.laar import Strategy
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.ppa.plan_document import PlanDocument

from .calls import fails, run


def test_json_goes_to_stdout_and_messages_to_stderr(topology, tmp_path):
    result = run(topology, "--budget", 4, "--json", "--plot", tmp_path / "p.svg", "--out", tmp_path / "plan.json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [r["task"] for r in document["replicated"]] == ["a/0", "a/1", "b/0", "b/1"]
    assert document["quality"] == pytest.approx(0.8) == document["bound"]
    assert "drew" in result.stderr
    assert read_document(tmp_path / "plan.json", PlanDocument).tasks == ("a/0", "a/1", "b/0", "b/1")
    drawn = (tmp_path / "p.svg").read_text()
    assert drawn.startswith("<svg") and "Output fidelity against budget" in drawn


def test_unknown_document_is_an_error(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("something: else\n")
    error = fails(path, "--budget", 1)
    assert isinstance(error, DocumentError)
    assert "is neither a task topology (field 'topology') nor an application descriptor" in str(error)


def test_plan_or_strategy_is_no_input(topology, descriptor, tmp_path):
    run(topology, "--budget", 2, "--out", tmp_path / "plan.json")
    run(descriptor, "--ic", 0.6, "--out", tmp_path / "strategy.json")
    assert "is a plan, which is the output of this command; give the task topology" in str(
        fails(tmp_path / "plan.json", "--budget", 2)
    )
    assert "is a strategy, which is the output of this command" in str(fails(tmp_path / "strategy.json"))


def test_help_has_an_example():
    assert "holdfast plan topology.yaml --budget 12 --out plan.json" in run("--help").stdout


def test_bad_output_path_is_refused_before_planning(topology, tmp_path):
    drawn = tmp_path / "picture.svg"
    drawn.write_text("a picture")
    for out, text in (
        (tmp_path, "is a directory; give the name of a file"),
        (drawn, "wants a suffix of .json, .yaml, .yml; got '.svg'"),
        (tmp_path / "plan", "wants a suffix of .json, .yaml, .yml; got ''"),
        (drawn / "plan.json", "is not a folder; give another name"),
        (topology, "is the document to plan for; give another name"),
    ):
        assert f"--out '{out}' " in str(fails(topology, "--budget", 2, "--out", out))
        assert text in str(fails(topology, "--budget", 2, "--out", out))
    assert drawn.read_text() == "a picture"


def test_os_error_names_the_given_path(tmp_path):
    out = Path("/proc/plan.json")  # a folder that takes no files, not even from root
    with pytest.raises(HoldfastError) as caught:
        write_output(out, figure_1())
    assert "--out '/proc/plan.json' cannot be written: " in str(caught.value)
    assert ".tmp" not in str(caught.value)


def test_special_characters_in_names_can_be_plotted(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(f"topology: 'a$b^$ {chr(0x1F600)}'\noperators: {{a: {{parallelism: 2, rate: 1}}}}\n")
    result = run(path, "--budget", 1, "--plot", tmp_path / "p.svg", "--out", tmp_path / "p.json")
    assert result.exit_code == 0, result.output
    assert "a$b^$" in (tmp_path / "p.html").read_text()
    assert "Glyph" not in result.stderr


def test_written_files_are_named(topology, descriptor, tmp_path):
    for document, option in ((topology, "--budget"), (descriptor, "--ic")):
        out = tmp_path / f"{document.stem}.json"
        result = run(document, option, 1 if document is topology else 0.6, "--out", out, "--json")
        assert f"wrote {out}" in result.stderr.splitlines() and json.loads(result.stdout)


def test_missing_file_error_suggests_a_fix(topology):
    near = topology.with_suffix(".yml")
    assert f"{near}: no such file; did you mean '{topology}'?" in str(fails(near, "--budget", 1))
    far = topology.parent / "nowhere" / "xyz.json"
    assert "no such file; check the path; 'holdfast profile' writes" in str(fails(far, "--budget", 1))


@pytest.mark.parametrize("option", ["--current", "--criticality"])
def test_input_is_not_overwritten(topology, tmp_path, option):
    read = tmp_path / "read.json"
    read.write_text("{}")
    assert f"--out '{read}' is the input of {option}; give another name" in str(
        fails(topology, "--budget", 2, option, read, "--out", read)
    )
    assert read.read_text() == "{}"
    picture = tmp_path / "read.svg"
    picture.symlink_to(topology)
    assert "is the document to plan for; give another name" in str(fails(topology, "--budget", 2, "--plot", picture))


@pytest.mark.parametrize("words", [("",), ("t.yaml", "--out", ""), ("fidelity", ""), ("lookup", "", "--rate", "a=1")])
def test_empty_file_name_is_an_error(words):
    result = run(*words)
    assert result.exit_code == 2
    assert "wanted the name of a file, got an empty one" in result.output


def test_page_is_written_next_to_the_document(topology, descriptor, tmp_path):
    for document, option, value, title, kind in (
        (topology, "--budget", 2, "A plan for lanes", PlanDocument),
        (descriptor, "--ic", 0.6, "A strategy for figure-1", Strategy),
    ):
        out = tmp_path / "made" / f"{document.stem}.yaml"
        result = run(document, option, value, "--out", out)
        assert result.exit_code == 0, result.output
        page = out.with_suffix(".html")
        assert result.stderr.splitlines()[-1] == f"report: {page}"
        assert f"<title>{title}</title>" in page.read_text()
        (tmp_path / "printed.json").write_text(run(document, option, value, "--out", out, "--json").stdout)
        assert read_document(tmp_path / "printed.json", kind) == read_document(out, kind)


def test_page_of_a_comparison_shows_all_planners(topology, descriptor, tmp_path):
    assert run(topology, "--budget", 2, "--planner", "all", "--out", tmp_path / "plan.json").exit_code == 0
    assert "Planners compared" in (tmp_path / "plan.html").read_text()
    compared = run(
        descriptor, "--ic", 0.6, "--planner", "all", "--plot", tmp_path / "p.svg", "--out", tmp_path / "s.json", "--json"
    )
    assert json.loads(compared.stdout)["report"] == str(tmp_path / "s.html")
    assert "the cheapest of each SLA" in (tmp_path / "s.html").read_text()


def test_page_does_not_replace_a_folder(topology, tmp_path):
    (tmp_path / "plan.html").mkdir()
    assert "plan.html' is a directory; give another name" in str(fails(topology, "--budget", 2, "--out", tmp_path / "plan.json"))
    assert not (tmp_path / "plan.json").exists()
