"""Shell completion of job numbers and node names. It asks an orchestrator, and completes nothing if none answers soon."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.protocol.client import Client

LIMIT_S = 2.0


def living_jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completions of jobs that have not ended, newest first."""
    return _matching(_jobs(_call(context, lambda client: client.jobs(state="living", limit_s=LIMIT_S))), incomplete)


def all_jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completions of the newest jobs, including ended ones."""
    return _matching(_jobs(_call(context, lambda client: client.jobs(limit_s=LIMIT_S))), incomplete)


def node_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completions of node names."""
    nodes = _call(context, lambda client: client.nodes(limit_s=LIMIT_S))
    return _matching([CompletionItem(node["name"], help=node["state"]) for node in nodes], incomplete)


def _call(context: click.Context, query: "Callable[[Client], list[dict[str, Any]]]") -> list[dict[str, Any]]:
    from holdfast.protocol.client import find_client

    options = context.params
    try:
        with find_client(options.get("orchestrator"), options.get("token_file"), certificate=options.get("certificate")) as client:
            return query(client)
    except HoldfastError:
        return []


def _jobs(jobs: list[dict[str, Any]]) -> list[CompletionItem]:
    return [CompletionItem(str(job["id"]), help=f"{job['name']}, {job['state']}") for job in jobs]


def _matching(items: list[CompletionItem], incomplete: str) -> list[CompletionItem]:
    return [item for item in items if item.value.startswith(incomplete)]
