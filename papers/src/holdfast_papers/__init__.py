"""Repeats the evaluations of five papers with holdfast. Read `reproduce.py` first: it lists the studies.

Each folder is one paper; `objectives` and `internet` are studies of our own. In a folder, `command.py` is the command, a `study` or
`runs` module does the work, and a `findings` module compares the results with the paper's statements.
"""
