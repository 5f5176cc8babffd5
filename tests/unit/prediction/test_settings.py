"""Settings of an epoch predictor."""

import pytest

from holdfast.errors import CompoundError
from holdfast.prediction import PredictorSettings


def test_all_errors_of_settings_are_reported_at_once():
    with pytest.raises(CompoundError, match="settings of prediction has 4 errors") as error:
        PredictorSettings(depth=1, measure="luck", tolerance=2.0, short="shrug")
    assert "depth must be a whole number of at least 2, got 1" in str(error.value)
