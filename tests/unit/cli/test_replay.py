"""holdfast replay: errors that it reports before it starts Spark."""

import pytest

from holdfast.documents.column_mapping import read_columns
from holdfast.errors import DocumentError, HoldfastError


def test_missing_java_ends_with_code_2(holdfast, no_java, shop):
    ran = holdfast("replay", shop, "--trace", "t.parquet")
    assert ran.code == 2
    assert ran.out == ""
    assert "holdfast: Spark needs Java 17 or newer, but none was found; install it (Debian: apt-get install" in ran.err


def test_only_one_option_may_define_the_epochs(holdfast, no_java, shop):
    ran = holdfast("replay", shop, "--trace", "t.parquet", "--by-epoch", 1, "--epoch-rows", 5)
    assert ran.code == 2
    assert "holdfast: --by-epoch and --epoch-rows both define the epochs; give only one of them" in ran.err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--by-epoch", 0, "more than 0 seconds, got 0.0"), ("--epoch-rows", 0, "at least 1 row, got 0")],
)
def test_empty_epochs_are_refused_before_spark_starts(holdfast, no_java, shop, option, value, message):
    ran = holdfast("replay", shop, "--trace", "t.parquet", option, value)
    assert ran.code == 2
    assert message in ran.err


def test_existing_output_is_not_replaced_without_force(holdfast, no_java, shop, tmp_path):
    (tmp_path / "out").mkdir()
    ran = holdfast("replay", shop, "--trace", "t.parquet", "--out", tmp_path / "out")
    assert ran.code == 2
    assert "out' exists already; give another --out, or --force to replace it" in ran.err


def test_all_errors_of_an_application_are_reported(holdfast, no_java, shop):
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


def test_mapping_of_a_single_source_may_omit_its_name(tmp_path):
    bare, named = "amount: price * 2\n", "orders: {amount: price * 2}\n"
    assert [read_columns(mapping(tmp_path, text), ["orders"]) for text in (bare, named)] == [
        {"orders": {"amount": "price * 2"}}
    ] * 2
    assert read_columns(None, ["orders"]) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amount: 7\n", "column 'amount' of 'orders' must be a SQL expression in quotes, got 7"),
        ("[1, 2]\n", "wanted a table of columns, got list"),
        ("a: [\n", "mapping "),
    ],
)
def test_invalid_mapping_is_reported(tmp_path, text, message):
    with pytest.raises(DocumentError) as caught:
        read_columns(mapping(tmp_path, text), ["orders"])
    assert message in str(caught.value)


def test_mapping_of_an_unknown_source_is_reported(tmp_path):
    with pytest.raises(DocumentError, match=r"names source 'order'; sources are: orders, prices"):
        read_columns(mapping(tmp_path, "order: {a: b}\n"), ["orders", "prices"])


def test_unreadable_mapping_is_reported(tmp_path):
    with pytest.raises(HoldfastError, match=r"^mapping '.*gone.yaml' cannot be read: No such file or directory$"):
        read_columns(tmp_path / "gone.yaml", ["orders"])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HoldfastError, match=r"cannot be read: it is not UTF-8 text$"):
        read_columns(tmp_path / "binary.yaml", ["orders"])
