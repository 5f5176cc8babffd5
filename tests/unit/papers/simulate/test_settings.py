"""Checks of the settings."""

import pytest

from holdfast.errors import CompoundError
from holdfast_papers.simulate import (
    FailureHandling,
    SimulationSettings,
)


def test_all_errors_of_settings_are_reported():
    with pytest.raises(CompoundError, match=r"(?s)step_s wants a number above 0, got 0.*handling.detect_s wants a number of"):
        SimulationSettings(step_s=0, failure_handling=FailureHandling(detect_s=-1))
    with pytest.raises(CompoundError, match=r"(?s)step_s wants a finite number, got inf.*handling.detect_s wants a finite"):
        SimulationSettings(step_s=float("inf"), queue_s=float("inf"), failure_handling=FailureHandling(detect_s=float("inf")))
    with pytest.raises(CompoundError, match=r"epoch_s wants whole steps of 0.05 s, got 0.12; give another step_s"):
        SimulationSettings(epoch_s=0.12, failure_handling=FailureHandling(scheme="checkpoint"))
    assert SimulationSettings(epoch_s=0.3, step_s=0.1, failure_handling=FailureHandling(scheme="checkpoint")).steps(0.3) == 3
