"""The example applications that ship with holdfast."""

from importlib.resources import files
from pathlib import Path


def example_path(name: str) -> Path:
    """Return the path of an example application, in the checkout if there is one, otherwise in the installed package."""
    checkout = Path(__file__).parents[3] / "examples" / name
    return checkout if checkout.is_file() else Path(str(files("holdfast") / "examples" / name))
