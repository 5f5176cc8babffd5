"""A study of our own, not of a paper: which planning objective predicts the damage of failures, and whose plans lose the least."""
