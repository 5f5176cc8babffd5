"""PEs that are defined in the job document itself, and the checks of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from holdfast.documents.document import FieldError, Part, at_least, between, join_names, unexpected
from holdfast.documents.topological_order import sort_topologically

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""A valid name of a job, node, PE or stream. Names become parts of paths and URLs."""
OF_OTHER = re.compile(rf"{NAME.pattern}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,99}}")
MAX_REPLICAS = 1000
"""The most replicas of one task. Each needs its own node."""
A_NAME = "a name of letters, digits, '_', '.', '-' (at most 100)"


class LightPe(Part):
    """A PE without Spark, defined in the job itself, for tests at scale. It beats and counts, and processes no rows.

    `reads` names streams of this job, or `job:stream` of another job. `shared`, as `job:pe`, refers to a PE of another job
    instead. The PE finishes after `lives_s`; if that is None, it runs until it is stopped.
    """

    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    replicas: int = 1
    shared: str | None = None
    lives_s: float | None = None

    def errors_at(self, name: str) -> Iterable[FieldError]:
        place = ("pes", name)
        if not NAME.fullmatch(name):
            yield unexpected(place, A_NAME, name)
        for index, stream in enumerate(self.makes):
            if not NAME.fullmatch(stream):
                yield unexpected((*place, "makes", index), f"{A_NAME} for a stream", stream)
        for index, stream in enumerate(self.reads):
            if ":" in stream and not is_of_other(stream):
                yield unexpected((*place, "reads", index), "a stream of this job, or 'job:stream' of another", stream)
        yield from between(1, MAX_REPLICAS, (*place, "replicas"), self.replicas)
        if self.lives_s is not None:
            yield from at_least(0, (*place, "lives_s"), self.lives_s)
        if self.shared is not None and (self != LightPe(shared=self.shared) or not is_of_other(self.shared)):
            yield FieldError((*place, "shared"), "wanted 'job:pe' and no other field; the other job defines them")


def is_of_other(text: str) -> bool:
    """Return whether a text names a stream or PE of another job.

    >>> [is_of_other(text) for text in ("market:trades", "trades", "market:", "a:b:c", "../market:trades")]
    [True, False, False, False, False]
    """
    return OF_OTHER.fullmatch(text) is not None


def order_of(pes: Mapping[str, LightPe]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of PEs in topological order, and those that a cycle keeps out of it."""
    makers = {stream: name for name in sorted(pes, reverse=True) for stream in pes[name].makes}
    return sort_topologically({name: {makers[stream] for stream in pe.reads if stream in makers} for name, pe in pes.items()})


def light_errors(pes: Mapping[str, LightPe], named: Mapping[str, Collection[str]]) -> Iterator[FieldError]:
    """Yield the errors of PEs that a job defines. `named` maps the fields of the job that name PEs to those names."""
    if not pes:
        yield FieldError(("pes",), "is empty; a job has at least one PE")
    makers: dict[str, str] = {}
    whole = (("pes",),)
    for name in sorted(pes):
        yield from pes[name].errors_at(name)
        for index, stream in enumerate(pes[name].makes):
            if stream in makers:
                text = f"stream '{stream}' is produced by both '{makers[stream]}' and '{name}'; give each its own"
                yield FieldError(("pes", name, "makes", index), text)
            makers.setdefault(stream, name)
    streams = join_names(makers)
    for name, pe in pes.items():
        for index, stream in enumerate(pe.reads):
            if ":" not in stream and stream not in makers:
                text = f"PE '{name}' reads stream '{stream}', which does not exist; streams are: {streams}"
                yield FieldError(("pes", name, "reads", index), text, whole)
    _, cyclic = order_of(pes)
    if cyclic:
        yield FieldError(("pes",), f"the PEs {join_names(cyclic)} form a cycle: they read one another's streams", whole)
    own = {name for name, pe in pes.items() if pe.shared is None}
    owned = join_names(own)
    for field, names in named.items():
        for name in names:
            if name not in own and not (field == "needs" and name.removesuffix("/0") in own):
                text = f"names PE '{name}', which this job does not have; its PEs are: {owned}"
                yield FieldError((field, name), text, whole)
