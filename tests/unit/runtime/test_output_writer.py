"""What a replica offers to the log: the rows of a record stay for as long as the record does."""

import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.log import EpochLog, Quality, Store
from holdfast.log.row_files import read_record_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter

ROWS = pa.table({"seq": [1, 2], "price": [1.5, 2.5]})


class Unsure(Store):
    """An object store whose answers are lost: asked again, it says that what it has just taken was there."""

    def create(self, name, content):
        super().create(name, content)
        return False


def test_the_rows_of_a_record_that_was_taken_without_an_answer_stay_and_its_commit_is_told():
    store, told = Unsure(MemoryStore()), []
    box = OutputWriter(
        store, 0, "vwap/0.0 on n1", Timeline(0, None, 1.0, opened_s=0.0), lambda kind, about: told.append((kind, about["as"]))
    )
    stands = box.publish("vwap", 3, rows=ROWS, quality=Quality.EXACT)
    assert stands is not None
    assert stands == EpochLog(store).final("vwap", 0, epoch=3)
    assert [table.to_pydict() for table in read_record_rows(store, stands)] == [ROWS.to_pydict()]
    assert told == [("commit", "first")]
