"""The command `holdfast`: one root that knows its commands by name and loads each when it is asked for."""

import sys
from importlib import import_module
from importlib.metadata import version

import click

from holdfast.errors import HoldfastError

COMMANDS = {
    "assess": "holdfast.cli.assess:assess",
    "check": "holdfast.cli.check:check",
    "demo": "holdfast.cli.demo:demo",
    "doctor": "holdfast.cli.doctor:doctor",
    "plan": "holdfast.cli.plan:plan",
    "profile": "holdfast.cli.profile:profile",
    "replay": "holdfast.cli.replay:replay",
    "reproduce": "holdfast.cli.main:reproduce",
    "trace": "holdfast.cli.trace:trace",
}
REPRODUCE = {
    "debs11": "holdfast.cli.reproduce_debs11:debs11",
    "laar-search": "holdfast.cli.reproduce_laar_search:laar_search",
    "ppa-plans": "holdfast.cli.reproduce_ppa_plans:ppa_plans",
}


class Commands(click.Group):
    """A group whose commands are imported when used: `holdfast --version` needs no Spark and no solver."""

    def __init__(self, *, places: dict[str, str], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed through
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, name = place.split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=Commands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("holdfast"), prog_name="holdfast")
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
        root.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (HoldfastError, click.Abort, KeyboardInterrupt) as error:
        if isinstance(error, HoldfastError):
            click.echo(f"holdfast: {error}", err=True)
            sys.exit(2)
        click.echo("holdfast: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)


if __name__ == "__main__":
    main()
