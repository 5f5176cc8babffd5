"""The watermarks of a query with several of them, which Spark's checkpoint lacks.

Spark stores only the global watermark of a query, which is by default the least one of all `withWatermark` calls. A query that
starts from a checkpoint takes every watermark as unknown until rows of that input arrive, so that the global watermark stands still
for longer than in a query that never stopped. The two would then drop other late rows and close windows in other epochs.
"""

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


class Watermarks:
    """The watermarks of a running query, in the order of its plan, in milliseconds; None for one that is not known yet.

    Create it once the query is `started`: before that, only the query's own thread may build the plan.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._execution = _execution(query)
        self._nodes = _watermark_nodes(self._execution.logicalPlan())

    @property
    def are_incomplete(self) -> bool:
        """Whether Spark's checkpoint does not determine them: there are several."""
        return len(self._nodes) > 1

    @staticmethod
    def started(query: StreamingQuery) -> bool:
        """Return whether a query has come to the point at which its watermarks can be set."""
        return _execution(query).watermarkTracker() is not None

    def read(self) -> list[int | None]:
        """Return the watermarks after the last batch."""
        values = self._execution.watermarkTracker().watermarkMap()
        options = [values.apply(node) for node in self._nodes]
        return [option.get() if option.isDefined() else None for option in options]

    def restore(self, values: list[int | None], jvm: Any) -> None:
        """Set the watermarks, before the query has its first batch."""
        tracker = self._execution.watermarkTracker()
        field = tracker.getClass().getDeclaredField("operatorToWatermarkMap")
        field.setAccessible(True)
        by_node = field.get(tracker)
        for node, value in zip(self._nodes, values, strict=True):
            if value is not None:
                boxed = jvm.java.util.stream.LongStream.of(value).boxed().findFirst()
                by_node.put(node, jvm.scala.jdk.javaapi.OptionConverters.toScala(boxed))


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


def _watermark_nodes(plan: Any) -> list[Any]:
    """Return the identities of the watermarks in a plan."""
    own = [plan.nodeId()] if plan.nodeName() == "EventTimeWatermark" else []
    children = plan.children()
    return own + [node for number in range(children.size()) for node in _watermark_nodes(children.apply(number))]
