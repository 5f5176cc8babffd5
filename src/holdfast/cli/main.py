"""The command `holdfast`: one root that knows its commands by name and loads each when it is asked for."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from holdfast.errors import HoldfastError

COMMANDS = {
    "advise": ("holdfast.cli.advise:advise", "Say what to protect, on the evidence of injected faults."),
    "agents": ("holdfast.cli.agents:agents", "See a job's prediction agents, and change them while they run."),
    "assess": ("holdfast.cli.assess:assess", "Measure by fault injection what losing an operator does to the output."),
    "cancel": ("holdfast.cli.cancel:cancel", "Stop a job."),
    "check": ("holdfast.cli.check:check", "Find everything wrong with an application before it runs."),
    "demo": ("holdfast.cli.demo:demo", "See it work on a generated market, in a few minutes."),
    "doctor": ("holdfast.cli.doctor:doctor", "Say what this machine has, what is missing and how to get it."),
    "drain": ("holdfast.cli.drain:drain", "Empty a node before it is taken away."),
    "init": ("holdfast.cli.init:init", "Write a commented application to start from."),
    "inject": ("holdfast.cli.inject:inject", "Strike a control plane at its transitions and see whether it heals."),
    "job": ("holdfast.cli.job:job", "Tell the story of one job."),
    "jobs": ("holdfast.cli.jobs:jobs", "List an orchestrator's jobs."),
    "node": ("holdfast.cli.node:node", "Offer this machine, or a part of it, to an orchestrator."),
    "nodes": ("holdfast.cli.nodes:nodes", "List an orchestrator's nodes."),
    "plan": ("holdfast.cli.plan:plan", "Decide which replicas are worth their price."),
    "profile": ("holdfast.cli.profile:profile", "Measure an application and write its descriptor."),
    "replay": ("holdfast.cli.replay:replay", "Run an application over a recorded trace."),
    "reproduce": ("holdfast.cli.main:reproduce", "Run a paper's evaluation again, its figures beside ours."),
    "serve": ("holdfast.cli.serve:serve", "Run the orchestrator."),
    "simulate": ("holdfast.cli.simulate:simulate", "Try an application and its strategy on a modelled cluster, through faults."),
    "submit": ("holdfast.cli.submit:submit", "Hand a job to an orchestrator."),
    "run": ("holdfast.cli.run:run", "Run an application on local nodes, through faults, to a verdict."),
    "trace": ("holdfast.cli.trace:trace", "Write a generated trace."),
    "ui": ("holdfast.cli.ui:ui", "Look at a running orchestrator, or at a run that is over, in a browser."),
}
REPRODUCE = {
    "all": ("holdfast.cli.reproduce_all:all_", "Every paper's evaluation, and one report of what held."),
    "debs11": ("holdfast.cli.reproduce_debs11:debs11", "Fault injection into Bargain Discovery (DEBS'11)."),
    "internet": ("holdfast.cli.reproduce_internet:internet", "A day of a data center under five plans, simulated."),
    "isorc16": ("holdfast.cli.reproduce_isorc16:isorc16", "Prediction: algorithms, and late PEs in real runs (ISORC'16)."),
    "laar": ("holdfast.cli.reproduce_laar:laar", "Replication variants on simulated clusters (LAAR, Figures 9 to 12)."),
    "laar-search": (
        "holdfast.cli.reproduce_laar_search:laar_search",
        "FT-Search over a corpus of applications (LAAR, Figures 4 to 6).",
    ),
    "objectives": (
        "holdfast.cli.reproduce_objectives:objectives",
        "Which planning objective foretells what failures do to the output.",
    ),
    "laar-pipeline": (
        "holdfast.cli.reproduce_laar_pipeline:laar_pipeline",
        "Activation by load against static replication, really run (LAAR, Figure 3).",
    ),
    "system-s": (
        "holdfast.cli.reproduce_system_s:system_s",
        "Recovery of a killed orchestrator against starting anew (System-S, Figure 8).",
    ),
    "ppa": ("holdfast.cli.reproduce_ppa:ppa", "Recovery, simulated and real, and tentative output (PPA, Figures 7 to 13)."),
    "ppa-plans": ("holdfast.cli.reproduce_ppa_plans:ppa_plans", "Planners over random topologies (PPA, Figure 14)."),
}


class _NobodyReadsError(Exception):
    """Who read standard output has gone: `holdfast plan ... | head -1`."""


@contextmanager
def _told_apart() -> Iterator[None]:
    """Keep a broken pipe from click, which would end with 1 as if something had failed."""
    try:
        yield
    except BrokenPipeError:
        raise _NobodyReadsError from None


class Commands(click.Group):
    """A group whose commands are imported when used: `holdfast --help` needs no Spark and no solver."""

    def __init__(self, *, places: dict[str, tuple[str, str]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed through
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, name = self.places[cmd_name][0].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _told_apart():
            return super().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_apart():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(self.places.items())])


@click.command(cls=Commands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", prog_name="holdfast")
def root() -> None:
    """Keep the output of streaming applications on Spark useful while parts of them fail.

    \b
    Start here:
      holdfast doctor                    what this machine has and lacks
      holdfast demo                      the whole of it, on a generated market
      holdfast check examples/bargain_discovery.py --trace market.parquet
    """


@click.command(cls=Commands, places=REPRODUCE)
def reproduce() -> None:
    """Run a paper's evaluation again and put its figures beside ours.

    \b
    Example:
      holdfast reproduce debs11 --out debs11
    """


def main() -> None:
    """Run the command line; a user's mistake is told in words and ends with exit code 2."""
    try:
        code = root.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)  # what a command's Exit said, which click returns in this mode
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (HoldfastError, click.Abort, KeyboardInterrupt) as error:
        if isinstance(error, HoldfastError):
            click.echo(f"holdfast: {error}", err=True)
            sys.exit(2)
        click.echo("holdfast: interrupted", err=True)
        sys.exit(130)
    except _NobodyReadsError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write must not fail again at exit
        sys.exit(141)  # as the shell tells a process that SIGPIPE ended
    except OSError as error:
        click.echo(f"holdfast: {error.filename or 'the system'}: {error.strerror or error}; check space and permissions", err=True)
        sys.exit(2)
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        click.echo(f"holdfast: Spark failed: {str(error).strip().splitlines()[0]}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
