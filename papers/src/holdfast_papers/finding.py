"""What a paper found, held against what was found here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim by its name, what the paper has, what was found here, and whether it holds."""

    name: str
    paper: str
    ours: str
    holds: bool
