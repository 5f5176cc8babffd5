"""Stream faults as values: the kind of a fault, its target and its time, but not how it is injected.

A stream fault is what the consumers of a failed operator observe (DEBS'11, section 2). Its effect on a tuple follows from
(seed, target, seq), so the same fault has the same effect every time.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from holdfast.errors import HoldfastError

Side = Literal["input", "output"]
"""Which streams a fault affects: those that its target reads, or those that it produces."""


@dataclass(frozen=True, kw_only=True)
class StreamFault:
    """A fault that affects `tuples` consecutive tuples of a target's streams, after `offset` tuples of the sources.

    The target is an operator, a source, or a group that fails together. `offset` counts source tuples, `tuples` counts tuples of
    the target.
    """

    kind: ClassVar[str] = "none"

    target: tuple[str, ...]
    offset: int
    tuples: int
    side: Side = "input"
    seed: int = 0

    def __post_init__(self) -> None:
        who = f"a {self.kind} fault"
        if not self.target:
            raise HoldfastError(f"{who} needs a target: the name of an operator or source, or several that fail together")
        if self.offset < 0:
            raise HoldfastError(f"{who} starts after at least 0 source tuples, got {self.offset}")
        if self.tuples < 1:
            raise HoldfastError(f"{who} lasts for at least 1 tuple, got {self.tuples}")
        if self.side not in ("input", "output"):
            raise HoldfastError(f"{who} affects the 'input' or the 'output' of its target, got '{self.side}'")

    def document(self) -> dict[str, Any]:
        """Return the fault as plain values for JSON.

        >>> Loss(target=("vwap",), offset=10, tuples=5).document()
        {'kind': 'loss', 'target': ['vwap'], 'offset': 10, 'tuples': 5, 'side': 'input', 'seed': 0}
        """
        return {"kind": self.kind, **asdict(self), "target": list(self.target)}


@dataclass(frozen=True, kw_only=True)
class Loss(StreamFault):
    """Bursty tuple loss (DEBS'11, section 4), the effect of a crash, a restart or a failover."""

    kind: ClassVar[str] = "loss"


@dataclass(frozen=True, kw_only=True)
class Duplication(StreamFault):
    """A share of the tuples arrives twice, as when an unsynchronised replica takes over."""

    kind: ClassVar[str] = "duplication"
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_share(self.kind, self.share)


@dataclass(frozen=True, kw_only=True)
class Reordering(StreamFault):
    """The tuples arrive in another order: the whole burst is shuffled, or each tuple moves by at most `distance` places."""

    kind: ClassVar[str] = "reordering"
    distance: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance is not None and not (isinstance(self.distance, int) and self.distance >= 1):
            raise HoldfastError(
                f"a reordering fault moves tuples by a whole number of places, at least 1, got {self.distance}; leave the distance "
                "out to shuffle all"
            )


@dataclass(frozen=True, kw_only=True)
class Divergence(StreamFault):
    """A share of the tuples has other values: every float in them is changed by up to the share `size` of its value."""

    kind: ClassVar[str] = "divergence"
    size: float = 0.1
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_share(self.kind, self.share)
        if not 0 < self.size < math.inf:
            raise HoldfastError(f"a divergence fault needs a finite size above 0, as a share of each value, got {self.size:g}")


KINDS: Mapping[str, type[StreamFault]] = {cls.kind: cls for cls in (Loss, Duplication, Reordering, Divergence)}


def fault_from_document(document: Mapping[str, Any]) -> StreamFault:
    """Return the fault that a document describes: the inverse of `document()`."""
    kind = str(document.get("kind"))
    if kind not in KINDS:
        raise HoldfastError(f"a fault is of an unknown kind '{kind}'; kinds are: {', '.join(sorted(KINDS))}")
    cls = KINDS[kind]
    known = {field.name for field in fields(cls)}
    unknown = sorted(set(document) - known - {"kind"})
    if unknown:
        raise HoldfastError(f"a {kind} fault has no '{unknown[0]}'; it has: {', '.join(sorted(known))}")
    missing = sorted({"target", "offset", "tuples"} - set(document))
    if missing:
        raise HoldfastError(f"a {kind} fault needs '{missing[0]}'; got: {', '.join(sorted(document))}")
    values = {name: value for name, value in document.items() if name != "kind"}
    return cls(**values | {"target": tuple(document["target"])})


def _require_share(kind: str, share: float) -> None:
    if not 0 < share <= 1:
        raise HoldfastError(f"a {kind} fault affects a share of the tuples above 0 and up to 1, got {share:g}")
