"""holdfast keeps the output of Spark streaming applications useful while parts of them fail."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App, last_epochs, last_rows, state_table
    from holdfast.app.writers import FencedError, WriteToken, console
    from holdfast.connectors.delta_writer import DeltaWriter
    from holdfast.connectors.iceberg_writer import IcebergWriter
    from holdfast.connectors.kafka_writer import KafkaWriter
    from holdfast.connectors.sql_writer import SqlWriter
else:  # mypy must not see __getattr__: with it, mypy would accept every name

    def __getattr__(name: str) -> object:
        """Import the names of `__all__` on first use, so that commands that need no application start sooner."""
        from importlib import import_module

        modules = {
            "FencedError": "app.writers",
            "WriteToken": "app.writers",
            "console": "app.writers",
            "DeltaWriter": "connectors.delta_writer",
            "IcebergWriter": "connectors.iceberg_writer",
            "KafkaWriter": "connectors.kafka_writer",
            "SqlWriter": "connectors.sql_writer",
        }
        if name in __all__:
            return getattr(import_module(f"holdfast.{modules.get(name, 'app')}"), name)
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")


__all__ = [
    "App",
    "DeltaWriter",
    "FencedError",
    "IcebergWriter",
    "KafkaWriter",
    "SqlWriter",
    "WriteToken",
    "console",
    "last_epochs",
    "last_rows",
    "state_table",
]
