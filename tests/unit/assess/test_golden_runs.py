"""The parts of a golden run, section by section."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from holdfast.assess.golden_runs import part_numbers, run_golden
from holdfast.assess.output_score import score_of
from holdfast.assess.sections import Sections
from holdfast.errors import HoldfastError

CONTEXT = SimpleNamespace(sections=Sections(10, 100, 5), scores=[score_of("out", "count(*)"), score_of("out", "avg(price)")])


def parts(*values, missing=0.0):
    column = pa.chunked_array([pa.array(values, pa.float64())])
    return part_numbers(CONTEXT, "sum(price)", np.array([3, 1, 2])[: len(values)], column, missing=missing)


def test_section_without_rows_or_values_has_the_missing_value():
    assert parts(7.0, None, 2.0).tolist() == [0.0, 0.0, 2.0, 7.0, 0.0]
    assert np.isnan(parts(7.0, None, missing=np.nan)).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(("value", "message"), [(np.nan, r"no number \(nan\)"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_non_finite_score_is_reported_with_its_first_section(value, message):
    with pytest.raises(
        HoldfastError, match=rf"the score 'avg\(price\)' is {message} in the section of seqs 110 to 119; every section needs"
    ):
        parts(np.inf, value, 1.0)


def test_failed_golden_run_names_its_scores(monkeypatch):
    def fail(*_):
        raise PySparkException("[DIVIDE_BY_ZERO] Division by zero.")

    monkeypatch.setattr("holdfast.assess.golden_runs.section_parts", fail)
    context = SimpleNamespace(golden_output=lambda seed: None, graph=SimpleNamespace(operators=()), scores=CONTEXT.scores)
    with pytest.raises(HoldfastError, match=r"a golden run, scored by count\(\*\) and avg\(price\), failed: .*Division by zero"):
        run_golden(context, 1000, outputs=False)
