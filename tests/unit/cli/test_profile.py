"""holdfast profile, up to the point where it needs Spark."""

import pytest


@pytest.mark.parametrize("option", ["--out", "--topology"])
def test_existing_file_is_not_replaced_without_force(holdfast, no_java, shop, tmp_path, option):
    existing = tmp_path / "existing.yaml"
    existing.write_text("mine")
    outs = {"--out": tmp_path / "new.yaml", option: existing}
    ran = holdfast("profile", shop, "--trace", "t", *(word for pair in outs.items() for word in pair))
    assert ran.code == 2
    assert "existing.yaml' exists already; give another path, or --force to replace it" in ran.err
    assert existing.read_text() == "mine"


@pytest.mark.parametrize("words", [("--step", 0), ("--levels", 5), ("--levels", 0), ("--nodes", 0)])
def test_sizes_out_of_range_are_refused(holdfast, no_java, shop, tmp_path, words):
    ran = holdfast("profile", shop, "--trace", "t", "--out", tmp_path / "new.yaml", *words)
    assert ran.code == 2
    assert "holdfast: --step must be above 0, --levels from 1 to 4 and --nodes at least 1, got" in ran.err


def test_missing_java_exits_with_2(holdfast, no_java, shop, tmp_path):
    ran = holdfast("profile", shop, "--trace", "t", "--out", tmp_path / "new.yaml")
    assert ran.code == 2
    assert "Spark needs Java 17 or newer" in ran.err
    assert not (tmp_path / "new.yaml").exists()
