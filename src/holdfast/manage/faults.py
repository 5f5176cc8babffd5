"""Fault injection inside an orchestrator: a library of faults, brought about by machines' actions or by a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.manage.calls import Call
from holdfast.manage.plugins import ActionMethod, Plugin


class Faults(Plugin):
    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)

    def actions(self) -> Mapping[str, ActionMethod]:
        return {}

    def calls(self) -> list[Call]:
        return []

    async def pass_on(self, node: str | None, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
