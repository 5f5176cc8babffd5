"""How long a run took to switch replicas when the input configuration changed (LAAR, section 4.6)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.control import CONFIGURATION
from holdfast.documents.history import HistoryEvent


@dataclass(frozen=True)
class Switch:
    """A change to another configuration: when the controller chose it, and how long until every replica had followed.

    `on_s` and `off_s` are the seconds until the last replica that was activated worked and until the last one that was idled had
    stopped; None if there was none, or if one had not when the run ended.
    """

    configuration: str
    chosen_s: float
    on_s: float | None
    off_s: float | None


def switches(events: Iterable[HistoryEvent]) -> list[Switch]:
    """Return each change of the configuration after the first, which is the one that the run starts with."""
    changes: list[tuple[str, float]] = []
    ordered: list[dict[tuple[str, bool], float | None]] = []
    for event in sorted(events, key=lambda event: event.about.get("reported_s", event.at_s)):
        about = event.about
        if event.kind == "orchestrator" and CONFIGURATION in about:
            changes.append((about[CONFIGURATION], about["reported_s"]))
            ordered.append({})
        elif event.kind == "orchestrator" and about["text"] in ("activated", "idled") and ordered:
            ordered[-1].setdefault((about["replica"], about["text"] == "activated"), None)
        elif event.kind == "switched":
            key = about["replica"], about["active"]
            waiting = next((effects for effects in reversed(ordered) if effects.get(key, event.at_s) is None), None)
            if waiting is not None:
                waiting[key] = event.at_s
    return [
        Switch(name, chosen_s, *(_last_s(effects, active, chosen_s) for active in (True, False)))
        for (name, chosen_s), effects in zip(changes[1:], ordered[1:], strict=True)
    ]


def _last_s(effects: dict[tuple[str, bool], float | None], active: bool, since_s: float) -> float | None:
    times = [at_s for (_, switched), at_s in effects.items() if switched is active]
    return None if not times or None in times else round(max(t for t in times if t is not None) - since_s, 3)


def describe_switch(switch: Mapping[str, Any]) -> str:
    """Describe a change in one line.

    >>> describe_switch({"configuration": "high", "chosen_s": 7.0, "on_s": None, "off_s": 0.34})
    'switched to high: replicas off after 0.3 s'
    """
    effects = [f"replicas {way} after {switch[f'{way}_s']:.1f} s" for way in ("on", "off") if switch[f"{way}_s"] is not None]
    return f"switched to {switch['configuration']}: {', '.join(effects) or 'no replica had followed'}"
