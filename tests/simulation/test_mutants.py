"""The laws detect the mutants. `mutants.py` searches for the schedules that show them."""

import pytest

from .mutants import MUTANTS, SEEDS, applied, first_violation
from .schedule import draw_schedule, play

SCHEDULES = 1_000
"""How many schedules a test tries at most, if the known one does not show the mutant any more."""


@pytest.mark.parametrize("name", SEEDS)
def test_laws_detect_the_mutant(name):
    assert first_violation(name, [SEEDS[name], *range(SCHEDULES)]) is not None


def test_real_code_breaks_no_law_where_mutants_do():
    with applied(MUTANTS["a sink does not correct"]):
        pass  # the real code is back
    for seed in sorted(set(SEEDS.values())):
        assert play(draw_schedule(seed)).first == "all laws hold"
