"""The epoch log: records and rows of all streams of a job, on a file system or an object store that all nodes can reach.

Read `epoch_log.py` first. `store.py` holds the objects under the log, `record.py` defines a record and its quality, and
`row_files.py` stores the rows. `trimming.py` removes what no consumer needs any more. `checkpoints.py` stores positions, and
`timeline.py` the times of epochs. `log_owner.py` checks that a job may continue an existing log.
"""

from holdfast.log.epoch_log import Divergence, EpochLog, OfferResult
from holdfast.log.record import AGENT_PREFIX, Quality, Record
from holdfast.log.store import Store
from holdfast.log.timeline import Timeline, read_timeline
