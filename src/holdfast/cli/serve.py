"""holdfast serve: the orchestrator."""

import gc
import sys
from pathlib import Path

import click

from holdfast.cli.shared import FiniteRange
from holdfast.terminal import say


@click.command()
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), default=Path("orchestrator"), show_default=True,
              help="Folder for the database, the tokens and the file 'address'.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8470, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on; 0: any that is free, told in the file 'address'.")  # fmt: skip
@click.option("--database", help="URL of the database; by default SQLite in the work folder.")
@click.option("--certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Certificate for TLS.")
@click.option("--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The certificate's key.")
@click.option("--machine", "machines", multiple=True, type=click.Path(path_type=Path), help="A further state machine, in TOML.")
@click.option("--applications", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Take applications, plans, strategies and column mappings from under this folder only.")  # fmt: skip
@click.option("--data", multiple=True, metavar="DIR|URL",
              help="Let jobs have traces, logs and output under this only; again for more.")  # fmt: skip
@click.option("--beat", "beat_s", default=0.5, show_default=True, type=FiniteRange(0.05), help="Seconds between a node's beats.")
@click.option("--lost-after", "lost_after_s", default=3.0, show_default=True, type=FiniteRange(0.2),
              help="Seconds of silence after which a node is lost, at least four beats.")  # fmt: skip
@click.option("--recovery-wait", "recovery_wait_s", default=10.0, show_default=True, type=FiniteRange(0),
              help="Seconds that a started orchestrator waits for the next of its nodes to come back.")  # fmt: skip
@click.option("--capacity-wait", "capacity_wait_s", default=10.0, show_default=True, type=FiniteRange(0),
              help="Seconds that a job without room waits for nodes before it fails.")  # fmt: skip
@click.option("--replicas-per-core", default=32.0, show_default=True, type=FiniteRange(0.01),
              help="Replicas that a node takes per core, where its label 'replicas' does not say it.")  # fmt: skip
@click.option("--plugin", "plugins", multiple=True, metavar="NAME=MODULE:CLASS", help="Replace or add a plug-in.")
@click.option("--faults", is_flag=True, help="Allow fault injection by calls. Not for production.")
@click.option(
    "--inject",
    "tests",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A document of fault injection tests. Not for production.",
)
@click.option("--revive", is_flag=True, help="Start the orchestrator again at once whenever it is killed.")
def serve(
    work: Path,
    host: str,
    port: int,
    database: str | None,
    certificate: Path | None,
    key: Path | None,
    machines: tuple[Path, ...],
    applications: Path | None,
    data: tuple[str, ...],
    beat_s: float,
    lost_after_s: float,
    recovery_wait_s: float,
    capacity_wait_s: float,
    replicas_per_core: float,
    plugins: tuple[str, ...],
    faults: bool,
    tests: tuple[Path, ...],
    revive: bool,
) -> None:
    """Run the orchestrator: takes jobs, places them on nodes, and sees to it that they go on.

    It can be killed at any moment and started again with the same --work: running PEs are not touched.

    \b
    Example:
      holdfast serve --work cluster
      holdfast serve --work cluster --port 0 --database postgresql://me@db/holdfast
    """
    from holdfast.control.api.listening import Listening, bind

    named = _plugins(plugins)
    listening = Listening(host, port, certificate, key)
    bound = bind(work, listening)  # before all else is loaded, which takes most of the time until the first answer
    gc.disable()  # until all is loaded: a fifth of that time would go into looking for garbage where there is none

    def run() -> None:
        import asyncio

        from holdfast.control.jobs.job_paths import Bounds
        from holdfast.control.server import serve
        from holdfast.control.settings import OrchestratorSettings

        settings = OrchestratorSettings(
            work=work,
            database=database or f"sqlite:///{work / 'jobs.db'}",
            beat_s=beat_s,
            lost_after_s=lost_after_s,
            recovery_wait_s=recovery_wait_s,
            capacity_wait_s=capacity_wait_s,
            replicas_per_core=replicas_per_core,
            machines=machines,
            bounds=Bounds(applications, data),
            plugins=named,
            faults=faults,
            inject=tests,
        )
        asyncio.run(serve(settings, listening, bound=bound, say=say))

    if not revive:
        run()
        return
    from holdfast.control.revival import preload, preload_rest, revived

    preload(named)
    sys.exit(revived(run, say=say, meanwhile=preload_rest))


def _plugins(given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if "=" not in each or ":" not in each:
            raise click.BadParameter(f"wanted NAME=MODULE:CLASS, got '{each}'", param_hint="--plugin")
    return dict(each.split("=", 1) for each in given)
