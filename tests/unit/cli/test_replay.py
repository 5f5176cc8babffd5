"""holdfast replay, as far as it goes without Spark."""

import pytest

from holdfast.documents.column_mapping import read_columns
from holdfast.errors import DocumentError, HoldfastError


def test_a_missing_java_is_told_with_code_2(holdfast, no_java, shop):
    ran = holdfast("replay", shop, "--trace", "t.parquet")
    assert ran.code == 2
    assert ran.out == ""
    assert "holdfast: Spark needs Java 17 or newer, but none was found; install it (Debian: apt-get install" in ran.err


def test_two_ways_of_cutting_epochs_are_one_too_many(holdfast, no_java, shop):
    ran = holdfast("replay", shop, "--trace", "t.parquet", "--by-epoch", 1, "--epoch-rows", 5)
    assert ran.code == 2
    assert "holdfast: --by-epoch and --epoch-rows both say how to cut epochs; give one of them" in ran.err


@pytest.mark.parametrize(
    ("option", "value", "said"), [("--by-epoch", 0, "more than 0 seconds, got 0.0"), ("--epoch-rows", 0, "at least 1 row, got 0")]
)
def test_epochs_of_nothing_are_refused_before_spark_starts(holdfast, no_java, shop, option, value, said):
    ran = holdfast("replay", shop, "--trace", "t.parquet", option, value)
    assert ran.code == 2
    assert said in ran.err


def test_what_is_at_out_is_not_replaced_unasked(holdfast, no_java, shop, tmp_path):
    (tmp_path / "out").mkdir()
    ran = holdfast("replay", shop, "--trace", "t.parquet", "--out", tmp_path / "out")
    assert ran.code == 2
    assert "out' exists already; give another --out, or --force to replace it" in ran.err


def test_an_application_with_mistakes_is_told_all_of_them(holdfast, no_java, shop):
    shop.write_text(
        shop.read_text().replace("seq long, ", "").replace('app.sink("alerts", large)', 'app.sink("alerts", "largest")')
    )
    ran = holdfast("replay", shop, "--trace", "t.parquet")
    assert ran.code == 2
    assert "has 2 errors:" in ran.err
    assert "no column 'seq'" in ran.err
    assert "reads stream 'largest', which does not exist" in ran.err


def mapping(tmp_path, text):
    file = tmp_path / "columns.yaml"
    file.write_text(text)
    return file


def test_a_mapping_of_one_source_may_leave_its_name_out(tmp_path):
    bare, named = "amount: price * 2\n", "orders: {amount: price * 2}\n"
    assert [read_columns(mapping(tmp_path, text), ["orders"]) for text in (bare, named)] == [
        {"orders": {"amount": "price * 2"}}
    ] * 2
    assert read_columns(None, ["orders"]) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("amount: 7\n", "column 'amount' of 'orders' must be a SQL expression in quotes, got 7"),
        ("[1, 2]\n", "wanted a table of columns, got list"),
        ("a: [\n", "mapping "),
    ],
)
def test_a_mapping_that_is_none_is_told(tmp_path, text, said):
    with pytest.raises(DocumentError) as caught:
        read_columns(mapping(tmp_path, text), ["orders"])
    assert said in str(caught.value)


def test_a_mapping_for_an_unknown_source_is_told(tmp_path):
    with pytest.raises(DocumentError, match=r"names source 'order'; sources are: orders, prices"):
        read_columns(mapping(tmp_path, "order: {a: b}\n"), ["orders", "prices"])


def test_a_mapping_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(HoldfastError, match=r"^mapping '.*gone.yaml' cannot be read: No such file or directory$"):
        read_columns(tmp_path / "gone.yaml", ["orders"])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HoldfastError, match=r"cannot be read: it is not UTF-8 text$"):
        read_columns(tmp_path / "binary.yaml", ["orders"])
