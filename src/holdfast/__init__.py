"""holdfast keeps the output of streaming applications on Spark useful while parts of them fail."""

from holdfast.model import App, last_epochs, last_rows, state_table
from holdfast.model.writers import console

__all__ = ["App", "console", "last_epochs", "last_rows", "state_table"]
