"""Names of streams and tasks inside names of objects."""

from functools import lru_cache
from urllib.parse import quote


@lru_cache
def quoted(name: str) -> str:
    """Return the name of a stream or task, quoted so that it cannot point outside its folder."""
    return quote(name, safe="")
