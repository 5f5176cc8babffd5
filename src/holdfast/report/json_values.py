"""Convert values to what JSON can represent."""

import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """Return a value with None for each nan or infinity, which JSON cannot represent.

    >>> finite({"quality": [1.0, float("inf")]})
    {'quality': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
