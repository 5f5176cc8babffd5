"""holdfast profile, as far as it goes without Spark."""

import pytest


@pytest.mark.parametrize("option", ["--out", "--topology"])
def test_what_is_there_is_not_replaced_unasked(holdfast, no_java, shop, tmp_path, option):
    there = tmp_path / "there.yaml"
    there.write_text("mine")
    outs = {"--out": tmp_path / "new.yaml", option: there}
    ran = holdfast("profile", shop, "--trace", "t", *(word for pair in outs.items() for word in pair))
    assert ran.code == 2
    assert "there.yaml' exists already; give another path, or --force to replace it" in ran.err
    assert there.read_text() == "mine"


@pytest.mark.parametrize("words", [("--step", 0), ("--levels", 5), ("--levels", 0), ("--nodes", 0)])
def test_sizes_that_make_no_sense_are_refused(holdfast, no_java, shop, tmp_path, words):
    ran = holdfast("profile", shop, "--trace", "t", "--out", tmp_path / "new.yaml", *words)
    assert ran.code == 2
    assert "holdfast: wanted --step above 0, --levels from 1 to 4 and --nodes of at least 1, got" in ran.err


def test_a_missing_java_is_told_with_code_2(holdfast, no_java, shop, tmp_path):
    ran = holdfast("profile", shop, "--trace", "t", "--out", tmp_path / "new.yaml")
    assert ran.code == 2
    assert "Spark needs Java 17 or newer" in ran.err
    assert not (tmp_path / "new.yaml").exists()
