"""A group of commands that imports each command on its first use."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from holdfast.entry_points import installed_entry_points


class OutputClosedError(Exception):
    """The reader of standard output has closed it, as in `holdfast plan ... | head -1`."""


@contextmanager
def _broken_pipe_as_output_closed() -> Iterator[None]:
    """Convert a broken pipe before click sees it: click would exit with code 1, as if the command had failed."""
    try:
        yield
    except BrokenPipeError:
        raise OutputClosedError from None


class CommandGroup(click.Group):
    """A group that imports a command when it is used, so that `holdfast --help` needs no Spark and no solver.

    `locations` maps each command's name to its import path (`module:attribute`) and its summary. `sections` are the sections of the
    help with their commands; the others follow. With `entry_point_group`, installed packages add commands through entry points of
    that group.
    """

    def __init__(
        self,
        *,
        locations: dict[str, tuple[str, str]],
        sections: Mapping[str, Sequence[str]] | None = None,
        entry_point_group: str | None = None,
        **settings: object,
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed through
        self._sections = dict(sections or {})
        self._locations = locations
        self._entry_point_group = entry_point_group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._locations, *self._installed()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        location = self._locations.get(cmd_name, (self._installed().get(cmd_name), ""))[0]
        if location is None:
            return None
        module, name = location.split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _broken_pipe_as_output_closed():
            return super().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _broken_pipe_as_output_closed():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for names in self._sections.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in listed]
        for heading, names in {**self._sections, "Other commands" if listed else "Commands": others}.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name, self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        if name in self._locations:
            return self._locations[name][1]
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=100) if command is not None else ""

    def _installed(self) -> dict[str, str]:
        """Return the import paths of the commands that other packages add. They cannot replace a command of holdfast."""
        if self._entry_point_group is None:
            return {}
        return {entry.name: entry.value for entry in installed_entry_points(self._entry_point_group)}
