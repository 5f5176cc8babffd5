"""Run pieces of work in parallel threads without creating them ahead of time."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from typing import Any


def run_parallel(work: Iterator[Callable[[], Any]], parallel: int) -> Iterator[Any]:
    """Yield the result of each piece of work when it is ready, with `parallel` pieces running at a time.

    Each piece redirects stdout to stderr while it calls operators. Overlapping redirections would restore stdout in the wrong
    order, so stdout is redirected once for all pieces.
    """
    pool = ThreadPoolExecutor(parallel)
    running: set[Future[Any]] = set()
    with redirect_stdout(sys.stderr):
        try:
            for piece in work:
                running.add(pool.submit(piece))
                if len(running) >= parallel:
                    ready, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ready:
                        yield future.result()
            while running:
                ready, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
