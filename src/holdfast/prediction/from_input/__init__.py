"""Predicts numbers of a late epoch from the epoch's own input, where the output is a simple function of it. Read `echo` first."""
