"""Ranks the predictors by accuracy and cost, and chooses among them when an epoch is late.

`model_builder` trains all predictors and predicts with each, `pending_prediction` compares these predictions with the output,
`algorithm_rank` keeps the accuracy of each predictor on each series, and `hot_swap` (Algorithm 1) chooses. Read `hot_swap` first.
"""
