"""What a target remembers of a sink: the last epoch whose first output it has, and the last one whose correction it has.

A sink writes first outputs in the order of epochs, and corrections in the order of epochs. So two numbers say whether a write is
new. A target stores them in the same transaction as the rows.
"""

from dataclasses import dataclass, replace

from holdfast.app.writers import WriteToken

NONE = -1


@dataclass(frozen=True)
class WrittenEpochs:
    """The last epochs that a target has from one run of a sink."""

    first: int = NONE
    final: int = NONE

    def has(self, token: WriteToken) -> bool:
        """Return whether the target has this write, or a later one that replaces it.

        >>> WrittenEpochs(first=7, final=4).has(WriteToken("run", 5, "final", 1))
        False
        """
        return token.epoch <= (self.first if token.kind == "first" else self.final)

    def after(self, token: WriteToken) -> "WrittenEpochs":
        """Return what the target has after a write."""
        return replace(self, first=max(self.first, token.epoch)) if token.kind == "first" else replace(self, final=token.epoch)
