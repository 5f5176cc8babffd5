"""The command `holdfast`: lists its commands, loads each on use, and turns errors into messages and exit codes."""

import os
import sys

import click

from holdfast.cli.command_group import CommandGroup, OutputClosedError
from holdfast.errors import HoldfastError

COMMANDS = {
    "advise": ("holdfast.cli.advise:advise", "Recommend which operators to protect, based on injected faults."),
    "agents": ("holdfast.cli.agents:agents", "List a job's prediction agents, and change their settings while they run."),
    "assess": ("holdfast.cli.assess:assess", "Inject faults into operators and measure what each does to the output."),
    "cancel": ("holdfast.cli.cancel:cancel", "Stop a job."),
    "check": ("holdfast.cli.check:check", "Report all errors of an application before it runs."),
    "demo": ("holdfast.cli.demo:demo", "Run an example on a generated market and kill a node; takes a few minutes."),
    "doctor": ("holdfast.cli.doctor:doctor", "List what this machine has, what is missing and how to install it."),
    "drain": ("holdfast.cli.drain:drain", "Move all replicas off a node, so that it can be removed."),
    "init": ("holdfast.cli.init:init", "Write a commented application to start from."),
    "job": ("holdfast.cli.job:job", "Show a job's history."),
    "jobs": ("holdfast.cli.jobs:jobs", "List an orchestrator's jobs."),
    "node": ("holdfast.cli.node:node", "Offer this machine, or a part of it, to an orchestrator."),
    "node-token": ("holdfast.cli.node_token:print_node_token", "Print the token of one node."),
    "nodes": ("holdfast.cli.nodes:nodes", "List an orchestrator's nodes."),
    "plan": ("holdfast.cli.plan:plan", "Choose which tasks to replicate within a budget."),
    "profile": ("holdfast.cli.profile:profile", "Measure an application and write its descriptor."),
    "record": ("holdfast.cli.record:record", "Record the sources of an application as a trace."),
    "replay": ("holdfast.cli.replay:replay", "Run an application over a recorded trace."),
    "run": ("holdfast.cli.run:run", "Run an application on local nodes, inject faults and check the output."),
    "serve": ("holdfast.cli.serve:serve", "Run the orchestrator."),
    "submit": ("holdfast.cli.submit:submit", "Submit a job to an orchestrator."),
    "trace": ("holdfast.cli.trace:trace", "Write a generated trace."),
    "ui": ("holdfast.cli.ui:ui", "Show a running orchestrator, or a finished run, in a browser."),
}

SECTIONS = {
    "Write an application": ("init", "check", "replay", "trace", "record"),
    "Decide what to protect": ("advise", "assess", "profile", "plan"),
    "Run it on this machine": ("run", "ui", "demo", "doctor"),
    "Operate a cluster": ("serve", "node-token", "node", "submit", "jobs", "job", "cancel", "nodes", "drain", "agents"),
}
"""The sections of `holdfast --help`, each with its commands in the order of use."""


@click.command(
    cls=CommandGroup,
    locations=COMMANDS,
    sections=SECTIONS,
    entry_point_group="holdfast.commands",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="holdfast", prog_name="holdfast")
def root() -> None:
    """Keep the output of streaming applications on Spark useful while parts of them fail.

    \b
    Start here:
      holdfast doctor         what this machine has and what is missing
      holdfast demo           a complete example, on a generated market
      holdfast init my-app    a commented application of your own, with a trace
    """


def main() -> None:
    """Run the command line. An error that the user can fix is printed without a traceback and ends with exit code 2."""
    try:
        code = root.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)  # in this mode click returns the code of a command's Exit
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail again
        sys.exit(141)  # the code that a shell reports for SIGPIPE
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
