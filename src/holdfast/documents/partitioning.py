"""How the tasks of an operator are fed by the tasks of one of its inputs (PPA, section II-A)."""

from typing import Literal

Partitioning = Literal["one-to-one", "split", "merge", "full"]
