"""Pieces of work side by side, no more of them made than are under way."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from typing import Any


def run_parallel(work: Iterator[Callable[[], Any]], parallel: int) -> Iterator[Any]:
    """What each piece of work gives, as it is ready, with `parallel` pieces under way.

    Each piece sends what operators print to stderr for as long as it calls them. Pieces that overlap would leave stdout there
    for good, so it is sent there as a whole until all are done.
    """
    pool = ThreadPoolExecutor(parallel)
    under_way: set[Future[Any]] = set()
    with redirect_stdout(sys.stderr):
        try:
            for piece in work:
                under_way.add(pool.submit(piece))
                if len(under_way) >= parallel:
                    ready, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in ready:
                        yield future.result()
            while under_way:
                ready, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        finally:
            for future in under_way:
                future.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
