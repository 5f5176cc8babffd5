"""Pieces of work in parallel threads, without Spark."""

import sys
import threading
from contextlib import redirect_stdout

import pytest

from holdfast.assess.parallel_work import run_parallel


def test_overlapping_pieces_restore_stdout():
    before, inside, entered = sys.stdout, threading.Barrier(2, timeout=30), threading.Event()

    def first():
        with redirect_stdout(sys.stderr):
            inside.wait()
            entered.wait(30)

    def second():
        inside.wait()
        with redirect_stdout(sys.stderr):
            entered.set()
            done.wait(30)

    done = threading.Event()
    work = run_parallel(iter([first, second]), 2)
    next(work)
    done.set()
    list(work)
    assert sys.stdout is before


def test_pieces_are_created_lazily():
    created = []

    def pieces():
        for number in range(6):
            created.append(number)
            yield lambda number=number: number

    work = run_parallel(pieces(), 2)
    next(work)
    assert len(created) <= 3
    assert len(list(work)) == 5


def test_error_of_a_piece_reaches_the_caller():
    def broken():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(run_parallel(iter([broken]), 2))
