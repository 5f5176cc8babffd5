"""Counts with their nouns, for messages."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun in the right number.

    >>> counted(1, "row"), counted(1200, "row"), counted(0, "replica")
    ('1 row', '1,200 rows', '0 replicas')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
