"""Generates fault-injection tests for every transition of a state machine (System-S, section 5)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.control import InjectionTest, Machine, Moment


def generate_tests(
    machine: Machine, faults: Mapping[str, Mapping[str, Any]], *, moments: Sequence[Moment] = ("before", "after", "done")
) -> Iterator[InjectionTest]:
    """Yield a test for every transition of a machine, every moment and every fault; the values of `faults` are their settings.

    A transition without actions is tested once after it is persisted, not twice.
    """
    for state, event, row in machine.transitions():
        for moment in moments:
            if moment == "done" and not row.do:
                continue
            for fault in sorted(faults):
                yield InjectionTest(
                    machine=machine.name,
                    state=state,
                    transition=event,
                    moment=moment,
                    fault=fault,
                    settings=dict(faults[fault]),
                )
