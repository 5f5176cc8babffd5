"""holdfast ui: the page of a running orchestrator, or of a run that is over."""

import secrets
import socket
import webbrowser
from pathlib import Path
from urllib.parse import urlencode

import click

from holdfast.cli.orchestrators import orchestrator_options
from holdfast.cli.shared import json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, say


@click.command()
@click.argument("run", metavar="[RUN]", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@orchestrator_options
@click.option("--job", type=click.IntRange(1), help="Show this job first.  [default: the newest]")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--port", default=0, show_default="any that is free", type=click.IntRange(0, 65535), help="Port for a run that is over."
)
@json_option
def ui(
    run: Path | None,
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    job: int | None,
    opens: bool,
    port: int,
    as_json: bool,
) -> None:
    """Print the address of the page, with the token in it; --open opens it.

    Without RUN, or where RUN still runs, it is the page of the orchestrator. RUN is the --work folder of 'holdfast run': when that
    is over, its history is played back from here, read-only, until Ctrl-C. The token stays in the browser: what follows a '#' is
    not sent.

    \b
    Example:
      holdfast ui                        the page of ./orchestrator
      holdfast ui --orchestrator http://head:8470 --token-file user.token --open
      holdfast ui run                    a run that is over, from its folder
    """
    live = None if run is not None and not _runs(run) else _address(run, orchestrator, token_file, certificate)
    if live is not None:
        _tell(page_address(live[0], live[1], job), opens=opens, as_json=as_json, past=False)
        return
    assert run is not None
    from holdfast.control.api.listening import Listening, bind
    from holdfast.ui.past_run import read_run
    from holdfast.ui.past_run_server import serve_run

    past = read_run(run)
    bound = bind(run, Listening(port=port)) if port else _any_port()
    token = secrets.token_urlsafe(24)
    host, number = bound.getsockname()[:2]
    _tell(page_address(f"http://{host}:{number}", token, None), opens=opens, as_json=as_json, past=True)
    serve_run(past, token, bound)


def _address(run: Path | None, orchestrator: str | None, token_file: Path | None, certificate: Path | None) -> tuple[str, str]:
    """Where the orchestrator is and the token for it, once it has answered."""
    from holdfast.protocol.client import find_client

    where = str(run / "orchestrator") if run is not None else orchestrator
    with find_client(where, token_file, certificate=certificate) as client:
        client.jobs(limit=1)  # the token is right, too
        return client.url, client.token


def _runs(run: Path) -> bool:
    """Whether the orchestrator of a run's folder answers, and knows the folder's token: another may have its port by now."""
    from holdfast.protocol.client import find_client

    try:
        with find_client(str(run / "orchestrator")) as client:
            client.jobs(limit=1)
    except HoldfastError:
        return False
    return True


def _any_port() -> socket.socket:
    bound = socket.create_server(("127.0.0.1", 0))
    bound.set_inheritable(False)
    return bound


def page_address(url: str, token: str, job: int | None = None) -> str:
    """The address of the page, with the token where only the browser sees it."""
    return f"{url}/ui/#{urlencode({'token': token, **({'job': job} if job else {})})}"


def _tell(address: str, *, opens: bool, as_json: bool, past: bool) -> None:
    if as_json:
        print_json({"url": address, "past": past})
    else:
        click.echo(address)
    if past:
        say("playing back a run that is over; Ctrl-C ends it")
    if opens and not webbrowser.open(address):
        say("no browser could be opened; open the address above")
