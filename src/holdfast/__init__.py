"""holdfast keeps the output of streaming applications on Spark useful while parts of them fail."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.app import App, last_epochs, last_rows, state_table
    from holdfast.app.writers import console

__all__ = ["App", "console", "last_epochs", "last_rows", "state_table"]


def __getattr__(name: str) -> Any:
    """What applications are written with, loaded when asked for: commands that load none start sooner."""
    if name == "console":
        from holdfast.app.writers import console

        return console
    if name in __all__:
        from holdfast import app

        return getattr(app, name)
    raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
