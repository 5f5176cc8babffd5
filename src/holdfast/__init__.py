"""holdfast keeps the output of Spark streaming applications useful while parts of them fail."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App, last_epochs, last_rows, state_table
    from holdfast.app.fenced_table import FencedTable
    from holdfast.app.writers import WriteToken, console
else:  # mypy must not see __getattr__: with it, mypy would accept every name

    def __getattr__(name: str) -> object:
        """Import the names of `__all__` on first use, so that commands that need no application start sooner."""
        if name in ("WriteToken", "console"):
            from holdfast.app import writers

            return getattr(writers, name)
        if name == "FencedTable":
            from holdfast.app.fenced_table import FencedTable

            return FencedTable
        if name in __all__:
            from holdfast import app

            return getattr(app, name)
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")


__all__ = ["App", "FencedTable", "WriteToken", "console", "last_epochs", "last_rows", "state_table"]
