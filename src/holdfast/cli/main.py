"""The command `holdfast`: one root that knows its commands by name and loads each when it is asked for."""

import os
import sys

import click

from holdfast.cli.command_group import CommandGroup, OutputClosedError
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
    "serve": ("holdfast.cli.serve:serve", "Run the orchestrator."),
    "simulate": ("holdfast.cli.simulate:simulate", "Try an application and its strategy on a modelled cluster, through faults."),
    "submit": ("holdfast.cli.submit:submit", "Hand a job to an orchestrator."),
    "run": ("holdfast.cli.run:run", "Run an application on local nodes, through faults, to a verdict."),
    "trace": ("holdfast.cli.trace:trace", "Write a generated trace."),
    "ui": ("holdfast.cli.ui:ui", "Look at a running orchestrator, or at a run that is over, in a browser."),
}


@click.command(
    cls=CommandGroup,
    locations=COMMANDS,
    entry_point_group="holdfast.commands",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="holdfast", prog_name="holdfast")
def root() -> None:
    """Keep the output of streaming applications on Spark useful while parts of them fail.

    \b
    Start here:
      holdfast doctor                    what this machine has and lacks
      holdfast demo                      the whole of it, on a generated market
      holdfast check examples/bargain_discovery.py --trace market.parquet
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
    except OutputClosedError:
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
