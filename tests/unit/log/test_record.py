"""Records: their format and their checks."""

import pytest

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Record


def test_record_of_another_format_is_refused() -> None:
    with pytest.raises(HoldfastError, match="a format that this version does not read"):
        Record.decode(b'{"format": 99}')


def test_absent_record_with_rows_is_refused() -> None:
    with pytest.raises(HoldfastError, match="has rows; an absent epoch has none"):
        Record("s", 0, 1, Quality.ABSENT, (), 5, None, None, "", "p")
