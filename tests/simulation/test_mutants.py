"""The laws detect every mutant, in the first schedule that is known to show it. `mutants.py` searches for these schedules."""

import logging

import pytest

from .mutants import MUTANTS, applied, first_violation
from .schedule import draw_schedule, play


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)  # mutants make replicas fail with unexpected errors
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.found_by is not None])
def test_laws_detect_the_mutant(name):
    seed = MUTANTS[name].found_by
    assert seed is not None
    assert first_violation(MUTANTS[name], range(seed, seed + 1)) is not None


def test_real_code_breaks_no_law_where_mutants_do():
    with applied(MUTANTS["a sink does not correct"]):
        pass  # the real code is back
    for seed in sorted({mutant.found_by for mutant in MUTANTS.values() if mutant.found_by is not None}):
        assert play(draw_schedule(seed)).first == "all laws hold"
