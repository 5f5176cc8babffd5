"""Writers for sinks."""

from typing import Any


def console(rows: Any, epoch: int, quality: str) -> None:
    """Print at most 20 rows of an epoch. On a cluster they go to the log of the PE host that runs the sink."""
    print(f"epoch {epoch}, {quality}, {rows.count()} rows", flush=True)
    rows.show(20, truncate=False)
