"""Accuracy of tentative output: nothing is missing where nothing fails, nothing is left where all do."""

from pathlib import Path

from holdfast_papers.ppa.tentative_study import QUERIES, plans, prepare

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_accuracy_of_a_join_follows_fidelity_not_completeness(spark, tmp_path):
    query = QUERIES[1]
    query.write_trace(tmp_path / "traffic", events=20_000, seed=1)
    trial = prepare(spark, query, EXAMPLES / query.example, tmp_path / "traffic", scratch=tmp_path)
    tasks = set(trial.topology.tasks)
    assert trial.accuracy([]) == 1.0
    assert trial.accuracy(sorted(tasks)) == 0.0
    planned = {plan.key: plan for plan in plans(query, trial.topology)}
    joined = planned["Q2/IC/structure-aware/0.8"]
    assert joined.completeness > 0.8 and joined.fidelity == 0.0
    assert trial.accuracy(sorted(tasks - set(joined.tasks))) == 0.0
    assert planned["Q2/OF/ours/0.8"].fidelity >= planned["Q2/OF/structure-aware/0.8"].fidelity > 0
