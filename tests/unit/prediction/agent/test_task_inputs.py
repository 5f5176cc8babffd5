"""Reading the inputs of a watched task."""

from obstore.store import MemoryStore

from holdfast.documents.job import Reading
from holdfast.log import Quality, Store
from holdfast.prediction.agent.task_inputs import TaskInput, input_rows
from holdfast.runtime.output_writer import OutputWriter

from .watched_task import RACKS, TIMELINE, EchoingTask


def test_only_the_tasks_share_of_a_divided_input_is_read():
    store = Store(MemoryStore())
    outbox = OutputWriter(store, 0, "src/0.0 on n1", TIMELINE, lambda *_: None)
    outbox.publish("src", 1, rows=EchoingTask.rows(1), quality=Quality.EXACT)
    shares = [TaskInput(Reading(stream="src", key=("rack",), share=share, of=2), store, 0) for share in range(2)]
    results = [input_rows([each], 1, final=True) for each in shares]
    racks = [rack for (table,), exact in results for rack in table["rack"].to_pylist() if exact]
    assert sorted(racks) == list(RACKS)
    assert input_rows(shares[:1], 2, final=False) is None
