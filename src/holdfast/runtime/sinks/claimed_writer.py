"""Calls a user's writer for the epochs that this replica has claimed."""

from collections.abc import Callable
from typing import Literal

import pyarrow as pa

from holdfast.app.writers import BoundWriter, FencedError, WriteKind, WriteToken
from holdfast.errors import HoldfastError, UnavailableError
from holdfast.log import Quality
from holdfast.runtime.sinks.write_claims import WriteClaims

WriteOutcome = Literal["wrote", "existing", "wait", "overtaken"]
"""`wrote`: this replica wrote the epoch. `existing`: it was already written. `wait`: another replica writes it. `overtaken`: see
ClaimedWriter."""


class ClaimedWriter:
    """A writer with the claims of one replica.

    The writer is called once per claim, and again after it has raised. A replica whose claim was taken over while its writer ran
    does not mark the epoch as written. A writer that takes no token may then have replaced newer rows; the outcome is `overtaken`.
    """

    def __init__(self, writer: BoundWriter, claims: WriteClaims, *, retries: int) -> None:
        self.claims = claims
        self._writer, self._retries = writer, retries
        self._unrecorded: WriteToken | None = None

    def write(self, read_rows: Callable[[], pa.Table], epoch: int, kind: WriteKind, quality: Quality) -> WriteOutcome:
        """Claim and write an epoch, unless another replica does."""
        token = self.claims.claim(epoch, kind)
        if not isinstance(token, WriteToken):
            return "existing" if token == "written" else "wait"
        if token != self._unrecorded:
            try:
                self._call_claimed(read_rows(), epoch, quality, token)
            except FencedError:
                return "wait"
            self._unrecorded = token  # if the log is full now, only the mark is missing
        if not self.claims.holds(token):
            return "wait" if self._writer.takes_token else "overtaken"
        return "wrote" if self.claims.mark_written(token) else "existing"

    def _call_claimed(self, rows: pa.Table, epoch: int, quality: Quality, token: WriteToken) -> None:
        try:
            with self.claims.renewing(token):
                self._call(rows, epoch, quality, token)
        except FencedError:
            raise
        except Exception:
            self.claims.release(token)
            raise

    def _call(self, rows: pa.Table, epoch: int, quality: Quality, token: WriteToken) -> None:
        """Call the writer until it succeeds. Raise HoldfastError when its retries are used up."""
        for failures in range(1, self._retries + 2):
            try:
                self._writer(rows, epoch, quality.value, token=token)
                return
            except (FencedError, UnavailableError):
                raise
            except Exception as error:
                if failures > self._retries:
                    raise HoldfastError(f"{error} (tried {failures} times)") from error
