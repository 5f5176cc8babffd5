"""`App.query`: what it records, and the mistakes that need no Spark to be found."""

import pytest

from holdfast.app import App
from holdfast.errors import ApplicationError, HoldfastError


def application(**options):
    app = App("queries")
    left = app.source("left", "seq long, key string")

    @app.query(inputs=left, **options)
    def counts(left):
        return left

    @app.operator(inputs=counts)
    def large(counts):
        return counts

    app.sink("out", large)
    return app, counts


def test_query_is_an_operator_whose_rows_belong_to_epochs():
    app, counts = application(output_mode="update", settings={"spark.sql.shuffle.partitions": "4"})
    assert (counts.is_query, counts.stateful, counts.windowed, counts.output_mode) == (True, True, True, "update")
    graph = app.graph()
    assert graph.operator("counts").settings == {"spark.sql.shuffle.partitions": "4"}
    assert (graph.reads_query("counts"), graph.reads_query("large")) == (False, True)
    assert not graph.operator("large").is_query


def test_unknown_output_mode_is_named_with_its_line():
    app, counts = application(output_mode="upsert")
    with pytest.raises(ApplicationError, match="output mode 'upsert'; it must be one of append, update, complete") as raised:
        app.graph()
    assert f"query 'counts' ({counts.origin})" in str(raised.value)


def test_command_without_support_for_queries_names_them():
    app, counts = application()
    with pytest.raises(HoldfastError, match="assessment supports function operators only") as raised:
        app.graph().require_no_queries("assessment")
    assert str(counts) in str(raised.value)
