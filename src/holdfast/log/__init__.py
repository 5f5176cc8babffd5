"""The epoch log, on a file system or an object store."""

from holdfast.log.epoch_log import Divergence, EpochLog, Offered
from holdfast.log.record import Quality, Record
from holdfast.log.store import Store

__all__ = ["Divergence", "EpochLog", "Offered", "Quality", "Record", "Store"]
