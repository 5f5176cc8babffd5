"""The verdicts on a simulation's outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.documents import HistoryEvent
from holdfast.trial import every_fault_injected

if TYPE_CHECKING:
    from holdfast_papers.simulate import SimulationOutcome


def verdicts_of(outcome: SimulationOutcome, promised: float | None) -> list[tuple[str, bool | None, str]]:
    """Return name, result and explanation of each check. The checker of real runs judges whether all faults were injected."""
    crashed = {event.about["pe"] for event in outcome.history() if event.kind == "fault"}
    working = crashed & outcome.working()
    imbalance = float(outcome.imbalance.max())
    ic = outcome.internal_completeness
    faults = [HistoryEvent(event.at_s, "simulation", event.kind, event.about) for event in outcome.injected_faults()]
    injected = every_fault_injected(faults, scheduled=len(outcome.faults))
    return [
        (
            "every tuple is accounted for",
            imbalance < 1e-6,
            f"received tuples differ from those processed, dropped, lost and queued by at most {imbalance:.1e}",
        ),
        ("nothing was lost", *_lost(outcome)),
        (
            "the promised internal completeness was kept",
            None if promised is None else ic >= promised - 1e-9,
            f"measured {ic:.4f}" + ("" if promised is None else f", promised {promised:.4f} under pessimistic failures"),
        ),
        (
            "every PE that failed came back",
            None if not crashed else crashed == working,
            f"{len(working)} of {len(crashed)} PEs that lost a replica have one that works at the end",
        ),
        *([(injected.name, injected.holds, injected.reason)] if outcome.faults else []),
    ]


def _lost(outcome: SimulationOutcome) -> tuple[bool | None, str]:
    """Return whether every tuple was processed, or None if none was missed and some still wait, with an explanation."""
    waiting = float(outcome.ledger.queued[-1].sum())
    text = f"{outcome.missed:,.0f} tuples were missed by a PE" + (f", {waiting:,.0f} wait at the end" if waiting >= 0.5 else "")
    ic = outcome.internal_completeness
    if outcome.missed >= 0.5 or ic > 1 - 1e-6:
        return outcome.missed < 0.5, text
    return None if waiting >= 0.5 else False, f"{text}; PEs processed {ic:.2%} of the tuples that they should"
