"""`holdfast ui`: show the page of a running orchestrator or of a run that has ended."""

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
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--port", default=0, show_default="any free port", type=click.IntRange(0, 65535), help="Port to play a finished run back on."
)
@json_option
def ui(
    run: Path | None,
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    job: int | None,
    open_browser: bool,
    port: int,
    as_json: bool,
) -> None:
    """Print the address of the web page, including the token.

    RUN is the --work folder of 'holdfast run'. While that run is running, or without RUN, the address is that of the
    orchestrator's page. Once the run has ended, this command serves a read-only playback of its history until Ctrl-C. The token
    follows a '#', so the browser does not send it as part of the address.

    \b
    Example:
      holdfast ui                        the page of ./orchestrator
      holdfast ui --orchestrator http://head:8470 --token-file user.token --open
      holdfast ui run                    play a finished run back
    """
    if run is None or _is_running(run):
        url, token = _find_orchestrator(run, orchestrator, token_file, certificate)
        _print_url(page_url(url, token, job), open_browser=open_browser, as_json=as_json, past=False)
        return
    from holdfast.control import Listening, bind
    from holdfast.ui.past_run import read_run
    from holdfast.ui.past_run_server import serve_run

    past = read_run(run)
    listener = bind(run, Listening(port=port)) if port else _listen_on_free_port()
    token = secrets.token_urlsafe(24)
    host, number = listener.getsockname()[:2]
    _print_url(page_url(f"http://{host}:{number}", token), open_browser=open_browser, as_json=as_json, past=True)
    serve_run(past, token, listener)


def _find_orchestrator(
    run: Path | None, orchestrator: str | None, token_file: Path | None, certificate: Path | None
) -> tuple[str, str]:
    """Return the URL of the orchestrator and its user token, after checking that it accepts the token."""
    from holdfast.protocol.client import find_client

    location = str(run / "orchestrator") if run is not None else orchestrator
    with find_client(location, token_file, certificate=certificate) as client:
        client.jobs(limit=1)  # fails if the token is wrong
        return client.url, client.token


def _is_running(run: Path) -> bool:
    """Return whether the run's orchestrator answers and accepts the run's token. (Another one may use its port by now.)"""
    from holdfast.protocol.client import find_client

    try:
        with find_client(str(run / "orchestrator")) as client:
            client.jobs(limit=1)
    except HoldfastError:
        return False
    return True


def _listen_on_free_port() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(False)
    return listener


def page_url(url: str, token: str, job: int | None = None) -> str:
    """Return the address of the page, with the token in the fragment, which the browser does not send."""
    return f"{url}/ui/#{urlencode({'token': token, **({'job': job} if job else {})})}"


def _print_url(address: str, *, open_browser: bool, as_json: bool, past: bool) -> None:
    if as_json:
        print_json({"url": address, "past": past})
    else:
        click.echo(address)
    if past:
        say("playing back a finished run; press Ctrl-C to stop")
    if open_browser and not webbrowser.open(address):
        say("cannot open a browser; open the address above yourself")
