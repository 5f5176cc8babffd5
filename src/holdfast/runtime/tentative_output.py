"""Where output becomes tentative: the rules that derive the quality of a replica's output from the records of its input.

With correction, a PE has two positions. What it computes at its clean position is exact. What it computes at its live position is
tentative, and `PeReplica._advance_live` commits it as such; the live position runs ahead only while some input is not exact.
Without correction, a PE has one position, and `qualities_without_correction` applies. A sink's output has `sink_quality`.
"""

from collections.abc import Sequence

from holdfast.log import Quality, Record


def are_exact(records: Sequence[Record]) -> bool:
    """Return whether all input records of an epoch are exact."""
    return all(record.quality is Quality.EXACT for record in records)


def qualities_without_correction(
    epochs: Sequence[Sequence[Record]], *, first_epoch: int, tainted: int | None, taint_epochs: int | None
) -> tuple[list[Quality], int | None]:
    """Return the quality of each epoch's output, and the last epoch whose incomplete input still affects the kept rows.

    `epochs` are the input records of the epochs from `first_epoch` on, and `tainted` is that last epoch before them. Incomplete
    input makes the output tentative for its own epoch and the next `taint_epochs` epochs; None: forever.
    """
    qualities: list[Quality] = []
    for epoch, records in enumerate(epochs, first_epoch):
        if not are_exact(records):
            tainted = epoch
        elif tainted is not None and taint_epochs is not None and epoch - tainted > taint_epochs:
            tainted = None
        qualities.append(Quality.EXACT if tainted is None else Quality.TENTATIVE)
    return qualities, tainted


def sink_quality(records: Sequence[Record]) -> Quality:
    """Return the quality of a sink's epoch: that of its worst input. It is absent only if there is just one input."""
    order = [Quality.EXACT, Quality.TENTATIVE, Quality.PREDICTED, Quality.ABSENT]
    worst = max((record.quality for record in records), key=order.index)
    return Quality.TENTATIVE if len(records) > 1 and worst is Quality.ABSENT else worst
