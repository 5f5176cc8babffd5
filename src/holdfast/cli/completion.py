"""What a shell completes by asking an orchestrator: numbers of jobs and names of nodes. Where none answers soon, nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.protocol.client import Client

SOON_S = 2.0


def living_jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Jobs that have not ended, the newest first."""
    return _fitting(_jobs(_ask(context, lambda client: client.jobs(state="living", limit_s=SOON_S))), incomplete)


def all_jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest jobs, ended ones too."""
    return _fitting(_jobs(_ask(context, lambda client: client.jobs(limit_s=SOON_S))), incomplete)


def node_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The nodes there are."""
    found = _ask(context, lambda client: client.nodes(limit_s=SOON_S))
    return _fitting([CompletionItem(node["name"], help=node["state"]) for node in found], incomplete)


def _ask(context: click.Context, question: "Callable[[Client], list[dict[str, Any]]]") -> list[dict[str, Any]]:
    from holdfast.protocol.client import find_client

    given = context.params
    try:
        with find_client(given.get("orchestrator"), given.get("token_file"), certificate=given.get("certificate")) as client:
            return question(client)
    except HoldfastError:
        return []


def _jobs(found: list[dict[str, Any]]) -> list[CompletionItem]:
    return [CompletionItem(str(job["id"]), help=f"{job['name']}, {job['state']}") for job in found]


def _fitting(items: list[CompletionItem], incomplete: str) -> list[CompletionItem]:
    return [item for item in items if item.value.startswith(incomplete)]
