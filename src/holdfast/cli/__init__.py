"""The commands of `holdfast`, one module each; `main.py` lists them and `command_group.py` loads them.

Exports what a package needs to add a command through the entry point group `holdfast.commands`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "DOCUMENTS",
    "FILE",
    "CommandGroup",
    "FiniteRange",
    "check_output",
    "exit_on_signals",
    "json_option",
    "spark_options",
    "spark_session",
    "write_output",
]

if TYPE_CHECKING:
    from holdfast.cli.command_group import CommandGroup
    from holdfast.cli.plan_output import DOCUMENTS, FILE, check_output, write_output
    from holdfast.cli.shared import FiniteRange, exit_on_signals, json_option, spark_options, spark_session
else:
    __getattr__ = lazy_exports(__name__)
