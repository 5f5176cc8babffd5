"""A statement of a paper, checked against the results of a study."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The statement, the paper's value, our value, and whether the statement holds here."""

    name: str
    paper: str
    ours: str
    holds: bool
