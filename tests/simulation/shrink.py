"""Reduces a failing schedule to the fewest faults, and prints it as Python that can be pasted into a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from .schedule import Config, Outcome, Schedule, play


def shrink(schedule: Schedule, *, play: Callable[[Schedule], Outcome] = play, limit: int = 150) -> tuple[Schedule, Outcome]:
    """Return a schedule with as few and as simple faults as possible that breaks the same law, and its outcome."""
    outcome = play(schedule)
    law, attempts = outcome.violations[0].law, 0
    improved = True
    while improved and attempts < limit:
        improved = False
        for candidate in _simpler(schedule):
            attempts += 1
            result = play(candidate)
            if any(violation.law == law for violation in result.violations):
                schedule, outcome, improved = candidate, result, True
                break
            if attempts >= limit:
                break
    return schedule, outcome


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules with half of the faults, with one fault less, and with a simpler configuration."""
    faults = schedule.faults
    if len(faults) > 3:
        middle = len(faults) // 2
        yield replace(schedule, faults=faults[:middle])
        yield replace(schedule, faults=faults[middle:])
    for index in range(len(faults)):
        yield replace(schedule, faults=faults[:index] + faults[index + 1 :])
    config = schedule.config
    if any(config.offsets_s):
        yield replace(schedule, config=replace(config, offsets_s=(0.0,) * len(config.offsets_s)))
    for index, count in enumerate(config.replicas):
        if count > 1:
            replicas = (*config.replicas[:index], 1, *config.replicas[index + 1 :])
            yield replace(schedule, config=replace(config, replicas=replicas))
    for name in ("protection", "tentative_after_s", "secondary", "restart", "patience_s", "observe_every_s"):
        default = next(field.default for field in fields(Config) if field.name == name)
        if getattr(config, name) != default:
            yield replace(schedule, config=replace(config, **{name: default}))


def as_python(schedule: Schedule) -> str:
    """Return a schedule as Python source, without the fields that have their default."""
    shown = [
        f"{field.name}={getattr(schedule.config, field.name)!r}"
        for field in fields(Config)
        if getattr(schedule.config, field.name) != field.default
    ]
    faults = "".join(f"\n        {fault!r}," for fault in schedule.faults)
    return f"Schedule(\n    Config({', '.join(shown)}),\n    ({faults}\n    ),\n)"
