"""Writers that sinks can name."""

from typing import Any


def console(rows: Any, epoch: int, quality: str) -> None:
    """Print an epoch's rows (a DataFrame), at most 20 of them: on a cluster into the log of the PE host that has the sink."""
    print(f"epoch {epoch}, {quality}, {rows.count()} rows", flush=True)
    rows.show(20, truncate=False)
