"""Keep rules: what they say, and what they refuse."""

import pytest

from holdfast.app import LastEpochs, LastRows, StateTable, last_epochs, last_rows, state_table
from holdfast.errors import HoldfastError


@pytest.mark.parametrize("by", ["ticker", ("ticker",), ["ticker"]])
def test_key_is_one_name_or_several(by):
    assert last_rows(4, by=by) == LastRows(4, ("ticker",))
    assert state_table("ticker string", by=by) == StateTable("ticker string", ("ticker",))


def test_rules_print_as_they_are_written():
    assert str(last_rows(4, by=("a", "b"))) == "last_rows(4, by=a, b)"
    assert str(last_rows(1)) == "last_rows(1, by=nothing)"
    assert str(last_epochs(3)) == "last_epochs(3)"
    assert str(state_table("a int")) == "state_table('a int', by=nothing)"


@pytest.mark.parametrize("n", [0, -1])
def test_keeping_no_rows_is_rejected(n):
    with pytest.raises(HoldfastError, match=rf"^last_rows keeps at least 1 row per key, got {n}; leave keep out for a stateless"):
        last_rows(n, by="a")


@pytest.mark.parametrize("n", [0, -3])
def test_keeping_no_epochs_is_rejected(n):
    with pytest.raises(HoldfastError, match=rf"^last_epochs keeps at least 1 epoch, got {n}; leave keep out for a stateless"):
        last_epochs(n)


@pytest.mark.parametrize("schema", ["", "  "])
def test_state_table_without_columns_is_rejected(schema):
    with pytest.raises(HoldfastError, match=r"^state_table needs a schema such as 'page string, views long', got an empty one$"):
        state_table(schema)


def test_equal_rules_compare_equal():
    assert len({last_rows(2, by="a"), last_rows(2, by=["a"]), LastEpochs(2), last_epochs(2)}) == 2
