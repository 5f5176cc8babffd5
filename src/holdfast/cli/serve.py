"""holdfast serve: start the orchestrator."""

import gc
from pathlib import Path

import click

from holdfast.cli.shared import FiniteRange
from holdfast.terminal import say


@click.command()
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), default=Path("orchestrator"), show_default=True,
              help="Folder for the database, the tokens and the file 'address'.")  # fmt: skip
@click.option("--listen", "host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", default=8470, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on; 0 takes any free port. The file 'address' has the port.")  # fmt: skip
@click.option("--database", help="URL of the database; by default SQLite in the work folder.")
@click.option("--certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Certificate for TLS.")
@click.option("--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The certificate's key.")
@click.option("--machine", "machines", multiple=True, type=click.Path(path_type=Path), help="A further state machine, in TOML.")
@click.option("--applications", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Accept applications, plans, strategies and column mappings only from this folder.")  # fmt: skip
@click.option("--trust-applications", is_flag=True,
              help="Parse applications with the rights of this user, on a system that cannot confine them.")  # fmt: skip
@click.option("--insecure", is_flag=True, help="Listen beyond loopback without TLS: tokens can be read on the network.")
@click.option("--data", multiple=True, metavar="DIR|URL",
              help="Accept traces, logs and output only under this folder or URL. Repeat the option for more.")  # fmt: skip
@click.option("--standby", is_flag=True, help="If another orchestrator leads, wait and take over when its lease ends.")
@click.option("--lease", "lease_s", default=10.0, show_default=True, type=FiniteRange(1),
              help="Seconds without a renewal after which a standby takes over. Give all orchestrators the same.")  # fmt: skip
@click.option("--restored", is_flag=True,
              help="Start from a restored backup: skip the numbers used since then, and restart all replicas.")  # fmt: skip
@click.option("--beat", "beat_s", default=0.5, show_default=True, type=FiniteRange(0.05), help="Seconds between a node's beats.")
@click.option("--lost-after", "lost_after_s", default=3.0, show_default=True, type=FiniteRange(0.2),
              help="Seconds without a beat after which a node is lost; at least four beats.")  # fmt: skip
@click.option("--recovery-wait", "recovery_wait_s", default=10.0, show_default=True, type=FiniteRange(0),
              help="Seconds that a started orchestrator waits for the next of its nodes to register again.")  # fmt: skip
@click.option("--capacity-wait", "capacity_wait_s", default=10.0, show_default=True, type=FiniteRange(0),
              help="Seconds that a job without room waits for nodes before it fails.")  # fmt: skip
@click.option("--replicas-per-core", default=32.0, show_default=True, type=FiniteRange(0.01),
              help="Replicas that a node takes per core, unless it has the label 'replicas'.")  # fmt: skip
@click.option("--plugin", "plugins", multiple=True, metavar="NAME=MODULE:CLASS", help="Replace or add a plug-in.")
@click.option("--faults", is_flag=True, help="Allow fault injection through the API. Not for production.")
@click.option("--inject", "tests", multiple=True, type=click.Path(path_type=Path),
              help="A document of fault injection tests. Not for production.")  # fmt: skip
def serve(
    work: Path,
    host: str,
    port: int,
    database: str | None,
    certificate: Path | None,
    key: Path | None,
    machines: tuple[Path, ...],
    applications: Path | None,
    trust_applications: bool,
    insecure: bool,
    data: tuple[str, ...],
    standby: bool,
    lease_s: float,
    restored: bool,
    beat_s: float,
    lost_after_s: float,
    recovery_wait_s: float,
    capacity_wait_s: float,
    replicas_per_core: float,
    plugins: tuple[str, ...],
    faults: bool,
    tests: tuple[Path, ...],
) -> None:
    """Run the orchestrator: accept jobs, place them on nodes, and restart what fails.

    You can kill it at any moment and start it again with the same --work. Running PEs are not touched.

    \b
    Example:
      holdfast serve --work cluster
      holdfast serve --work cluster --standby --database postgresql://me@db/holdfast
    """
    from holdfast.control import Listening, bind

    plugin_paths = _plugins(plugins)
    listening = Listening(host, port, certificate, key, insecure=insecure)
    listener = bind(work, listening)  # before the slow imports, so that callers connect and wait instead of being refused
    gc.disable()  # the imports create no garbage, and looking for it takes a fifth of their time; the server enables it again

    import asyncio

    from holdfast.control import AllowedPaths, OrchestratorSettings, serve

    settings = OrchestratorSettings(
        work=work,
        database=database or f"sqlite:///{work / 'jobs.db'}",
        standby=standby,
        lease_s=lease_s,
        restored=restored,
        beat_s=beat_s,
        lost_after_s=lost_after_s,
        recovery_wait_s=recovery_wait_s,
        capacity_wait_s=capacity_wait_s,
        replicas_per_core=replicas_per_core,
        machines=machines,
        bounds=AllowedPaths(applications, data),
        secrets=() if key is None else (key,),
        trust_applications=trust_applications,
        plugins=plugin_paths,
        faults=faults,
        inject=tests,
    )
    asyncio.run(serve(settings, listening, bound=listener, say=say))


def _plugins(options: tuple[str, ...]) -> dict[str, str]:
    for option in options:
        if "=" not in option or ":" not in option:
            raise click.BadParameter(f"wanted NAME=MODULE:CLASS, got '{option}'", param_hint="--plugin")
    return dict(option.split("=", 1) for option in options)
