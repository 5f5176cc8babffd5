"""The commands of `holdfast`, one module each; `main.py` lists them and `command_group.py` loads them.

Exports what a package needs to add a command through the entry point group `holdfast.commands`, or a kind of trace through the
group `holdfast.traces`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.cli.command_group import CommandGroup
    from holdfast.cli.plan_output import DOCUMENTS, FILE, check_output, write_output
    from holdfast.cli.shared import FiniteRange, command_line, exit_on_signals, json_option, spark_options, spark_session
    from holdfast.cli.trace import trace_options, write_trace
else:
    __getattr__ = lazy_exports(__name__)
