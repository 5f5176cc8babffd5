"""holdfast check: errors that it reports before it starts Spark."""

import pytest


@pytest.mark.parametrize("sizes", [("--rows", 1), ("--parts", 1)])
def test_sample_too_small_to_cut_is_refused(holdfast, no_java, shop, sizes):
    ran = holdfast("check", shop, *sizes)
    assert ran.code == 2
    assert "holdfast: a sample needs at least 2 rows in 2 parts, got --rows" in ran.err


def test_graph_errors_are_reported_without_spark(holdfast, no_java, shop):
    shop.write_text(shop.read_text().replace('app.sink("alerts", large)', ""))
    ran = holdfast("check", shop)
    assert ran.code == 2
    assert ran.err.startswith("holdfast: application 'shop' (shop.py:4): no sink: declare at least one with app.sink(name, stream)")


def test_syntax_error_is_reported_with_its_line(holdfast, no_java, shop):
    shop.write_text(shop.read_text() + "\nx = (\n")
    ran = holdfast("check", shop)
    assert ran.code == 2
    assert "shop.py': line 15: '(' was never closed" in ran.err


def test_missing_java_ends_with_code_2(holdfast, no_java, shop):
    ran = holdfast("check", shop)
    assert ran.code == 2
    assert "Spark needs Java 17 or newer" in ran.err
