"""The epoch log, on a file system or an object store."""

from holdfast.log.epoch_log import Divergence, EpochLog, OfferResult
from holdfast.log.record import AGENT_PREFIX, Quality, Record
from holdfast.log.store import Store
from holdfast.log.timeline import Timeline

__all__ = ["AGENT_PREFIX", "Divergence", "EpochLog", "OfferResult", "Quality", "Record", "Store", "Timeline"]
