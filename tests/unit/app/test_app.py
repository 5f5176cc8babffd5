"""Writing an application: definitions that know their place, and every mistake told at once."""

import inspect
from dataclasses import FrozenInstanceError

import pytest

from holdfast.app import App, LastRows, Operator, Source, last_epochs, last_rows, state_table
from holdfast.errors import ApplicationError, HoldfastError

ORDERS = "seq long, customer string, amount double"


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def same(rows):
    return rows


def shop() -> tuple[App, Source]:
    app = App("shop")
    return app, app.source("orders", ORDERS)


def errors(app: App) -> tuple[str, ...]:
    with pytest.raises(ApplicationError) as caught:
        app.graph()
    return caught.value.errors


def only_error(app: App) -> str:
    messages = errors(app)
    assert len(messages) == 1, messages
    return messages[0]


def test_definitions_know_their_file_and_line():
    app = App("shop")
    defined = here() - 1
    orders = app.source("orders", ORDERS)

    @app.operator(inputs=orders)
    def large(orders):
        return orders

    app.sink("alerts", large)
    app.score("alerts", "count(*)")
    assert (app.origin.file, app.origin.line) == (__file__, defined)
    assert orders.origin.line == defined + 2
    assert (large.origin.file, large.origin.line) == (__file__, defined + 4)
    assert app.graph().nodes["alerts"].origin.line == defined + 8
    assert app.scores[0].origin.line == defined + 9
    assert str(large.origin) == f"test_app.py:{defined + 4}"


def test_imported_function_has_the_origin_of_the_operator_call():
    app, orders = shop()
    operator = app.operator(inputs=orders, name="copied")(inspect.unwrap)
    assert (operator.origin.file, operator.origin.line) == (__file__, here() - 1)


def test_definitions_are_frozen():
    _, orders = shop()
    with pytest.raises(FrozenInstanceError):
        orders.name = "other"


def test_defining_an_application_runs_no_operator():
    app, orders = shop()

    @app.operator(inputs=orders)
    def explosive(orders):
        raise AssertionError("an operator ran while it was defined")

    app.sink("out", explosive)
    app.graph()


def test_decorated_function_becomes_an_operator():
    app, orders = shop()

    @app.operator(inputs=orders, keep=last_rows(3, by="customer"))
    def recent(orders):
        return orders

    @app.operator(inputs="recent")
    def by_name(rows):
        return rows

    app.sink("out", by_name)
    assert isinstance(recent, Operator)
    assert recent.keep == {"orders": LastRows(3, ("customer",))}
    assert app.graph().predecessors("by_name") == ("recent",)


def test_keep_rule_applies_to_every_input_or_per_input():
    app, orders = shop()
    prices = app.source("prices", "seq long, price double")
    both = app.operator(inputs=[orders, prices], keep=last_epochs(2), name="both")(lambda a, b: a)
    one = app.operator(inputs=[orders, prices], keep={prices: last_rows(1)}, name="one")(lambda a, b: a)
    assert set(both.keep) == {"orders", "prices"}
    assert both.windowed
    assert both.stateful
    assert set(one.keep) == {"prices"}
    assert not one.windowed
    assert one.stateful


def test_state_table_belongs_to_the_operator():
    app, orders = shop()
    table = state_table("customer string, total double", by="customer")
    totals = app.operator(inputs=orders, keep=table, name="totals")(lambda rows, state: (rows, state))
    assert totals.state == table
    assert totals.keep == {}
    assert totals.stateful
    assert not app.operator(inputs=orders, name="plain")(same).stateful


def test_unknown_stream_is_reported_with_the_known_ones():
    app, orders = shop()
    app.operator(inputs=orders, name="aggregator")(same)
    vwap = app.operator(inputs="agregator", name="vwap")(same)
    app.sink("out", "nowhere")
    known = "which does not exist; streams are: aggregator, orders, vwap"
    assert errors(app) == (
        f"operator 'vwap' ({vwap.origin}) reads stream 'agregator', {known}; did you mean 'aggregator'?",
        f"sink 'out' (test_app.py:{here() - 4}) reads stream 'nowhere', {known}",
    )


def test_duplicate_name_is_reported_with_both_origins():
    app, orders = shop()

    @app.operator(inputs=orders, name="orders")
    def again(rows):
        return rows

    app.sink("out", "orders")
    assert only_error(app) == (
        f"the name 'orders' is defined 2 times ({orders.origin}, {again.origin}); a name belongs to one source, operator or sink"
    )


def test_missing_source_and_missing_sink_are_both_reported():
    assert errors(App("nothing")) == (
        "no source: declare at least one with app.source(name, schema)",
        "no sink: declare at least one with app.sink(name, stream)",
    )


def test_cycle_is_reported_with_its_path():
    app, orders = shop()
    app.operator(inputs=[orders, "c"], name="a")(lambda x, y: x)
    app.operator(inputs="a", name="b")(same)
    app.operator(inputs="b", name="c")(same)
    app.sink("out", "c")
    message = only_error(app)
    paths = ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"]
    assert message in [f"the streams form a cycle: {path}; an application is acyclic" for path in paths]


def test_operator_that_reads_itself_is_a_cycle():
    app, orders = shop()
    app.operator(inputs=[orders, "a"], name="a")(lambda x, y: x)
    app.sink("out", "a")
    assert only_error(app) == "the streams form a cycle: a -> a; an application is acyclic"


def test_stream_that_leads_to_no_sink_is_reported():
    app, orders = shop()
    lost = app.operator(inputs=orders, name="lost")(same)
    app.sink("out", orders)
    assert only_error(app) == f"operator 'lost' ({lost.origin}) leads to no sink; sink its stream or remove it"


def test_source_that_nothing_reads_is_reported():
    app, orders = shop()
    spare = app.source("spare", ORDERS)
    app.sink("out", orders)
    assert only_error(app) == f"source 'spare' ({spare.origin}) leads to no sink; sink its stream or remove it"


@pytest.mark.parametrize("what", ["keep", "partitioning"])
def test_rule_for_a_stream_that_is_no_input_is_reported(what):
    app, orders = shop()
    rules = {"keep": last_rows(1), "partitioning": "full"}
    bad = app.operator(inputs=orders, name="bad", **{what: {"prices": rules[what]}})(same)
    app.sink("out", bad)
    assert (
        only_error(app) == f"operator 'bad' ({bad.origin}) has a {what} rule for 'prices', which is not one of its inputs: orders"
    )


def test_state_table_given_for_one_input_is_reported():
    app, orders = shop()
    bad = app.operator(inputs=orders, name="bad", keep={orders: state_table("a int")})(same)
    app.sink("out", bad)
    assert (
        "keep for 'orders' is a state table, which belongs to the whole operator; give it as keep=state_table(...)"
        in only_error(app)
    )


@pytest.mark.parametrize(
    ("function", "takes"),
    [(lambda: 1, 0), (lambda a: a, 1), (lambda a, b, c: a, 3)],
)
def test_function_with_the_wrong_number_of_parameters_is_reported(function, takes):
    app, orders = shop()
    prices = app.source("prices", "seq long")
    bad = app.operator(inputs=[orders, prices], name="bad")(function)
    app.sink("out", bad)
    assert only_error(app) == f"operator 'bad' ({bad.origin}) takes {takes} arguments, but it must take 2: one per input"


def test_function_without_a_parameter_for_its_state_table_is_reported():
    app, orders = shop()
    bad = app.operator(inputs=orders, keep=state_table("a int"), name="bad")(lambda rows: rows)
    app.sink("out", bad)
    assert only_error(app).endswith("takes 1 arguments, but it must take 2: one per input and the state table")


@pytest.mark.parametrize("function", [lambda *rows: rows[0], lambda rows, scale=2: rows, len])
def test_functions_that_can_take_the_inputs_are_accepted(function):
    app, orders = shop()
    app.sink("out", app.operator(inputs=orders, name="good")(function))
    app.graph()


def test_keyword_only_argument_is_reported():
    app, orders = shop()

    @app.operator(inputs=orders)
    def bad(rows, *, scale):
        return rows

    app.sink("out", bad)
    assert "takes 'scale' by name only, but inputs are passed in order" in only_error(app)


@pytest.mark.parametrize(
    ("kind", "upstream", "tasks", "wants"),
    [
        ("one-to-one", 2, 3, "as many tasks as upstream"),
        ("split", 2, 3, "a multiple of the upstream tasks"),
        ("split", 4, 2, "a multiple of the upstream tasks"),
        ("split", 2, 2, "a multiple of the upstream tasks"),
        ("merge", 3, 2, "a divisor of the upstream tasks"),
        ("merge", 2, 4, "a divisor of the upstream tasks"),
        ("merge", 2, 2, "a divisor of the upstream tasks"),
    ],
)
def test_partitioning_that_does_not_match_the_tasks_is_reported(kind, upstream, tasks, wants):
    app = App("shop")
    orders = app.source("orders", ORDERS, parallelism=upstream)
    bad = app.operator(inputs=orders, key="customer", parallelism=tasks, partitioning=kind, name="bad")(same)
    app.sink("out", bad)
    assert only_error(app) == (
        f"operator 'bad' ({bad.origin}): partitioning '{kind}' of 'orders' requires {wants}, got {upstream} tasks feeding {tasks}"
    )


def test_unknown_partitioning_is_reported():
    app, orders = shop()
    app.sink("out", app.operator(inputs=orders, partitioning="random", name="bad")(same))
    assert "partitioning of 'orders' is 'random'; it must be one of one-to-one, split, merge, full" in only_error(app)


def test_operator_between_fused_operators_is_reported():
    app, orders = shop()
    a = app.operator(inputs=orders, pe="p", name="a")(same)
    b = app.operator(inputs=a, name="b")(same)
    app.sink("out", app.operator(inputs=b, pe="p", name="c")(same))
    assert only_error(app) == (
        "PE 'p' fuses a, c, but b lies between them, so that it and the PE would wait for each other; fuse it too or fuse less"
    )


def test_pes_that_wait_for_each_other_are_reported():
    app, orders = shop()
    a1 = app.operator(inputs=orders, pe="p", name="a1")(same)
    b2 = app.operator(inputs=orders, pe="q", name="b2")(same)
    app.sink("one", app.operator(inputs=a1, pe="q", name="b1")(same))
    app.sink("two", app.operator(inputs=b2, pe="p", name="a2")(same))
    message = only_error(app)
    assert message in [
        f"the PEs wait for each other: {path}; fuse them into one or fuse less" for path in ("p -> q -> p", "q -> p -> q")
    ]


@pytest.mark.parametrize(("name", "kind"), [("orders", "source"), ("out", "sink")])
def test_pe_named_like_a_source_or_sink_is_reported(name, kind):
    app, orders = shop()
    app.sink("out", app.operator(inputs=orders, pe=name, name="a")(same))
    assert only_error(app) == f"PE '{name}' has the name of a {kind}; give it another name"


@pytest.mark.parametrize("schema", ["seq long, epoch long", "seq long, Epoch int", "seq long, `epoch` long"])
def test_reserved_column_is_reported(schema):
    app = App("shop")
    app.sink("out", app.source("orders", schema))
    assert "a name that holdfast reserves; rename the column" in only_error(app)


@pytest.mark.parametrize("schema", ["customer string", "Seq long", "sequence long", "place struct<seq: long, y: int>", ""])
def test_source_without_seq_is_reported(schema):
    app = App("shop")
    app.sink("out", app.source("orders", schema))
    assert only_error(app).endswith(f"has no column 'seq'; its schema must have 'seq long', ascending, got '{schema}'")


@pytest.mark.parametrize(
    "schema", ["seq long, place struct<epoch: int, b: int>, d decimal(10, 2)", "`seq` long", "seq: long, a: int"]
)
def test_columns_inside_types_are_no_columns(schema):
    app = App("shop")
    app.sink("out", app.source("orders", schema))
    app.graph()


def test_two_columns_of_one_name_are_reported():
    app = App("shop")
    app.sink("out", app.source("orders", "seq long, amount int, Amount double"))
    assert "has 2 columns called 'amount'; give each its own name" in only_error(app)


def test_score_of_an_unknown_sink_is_reported():
    app, orders = shop()
    app.sink("out", orders)
    app.score("outs", "count(*)")
    text = f"the score at test_app.py:{here() - 1} is of sink 'outs', which does not exist; sinks are: out; did you mean 'out'?"
    assert only_error(app) == text


def test_epoch_length_must_be_positive():
    app = App("shop", epoch_s=0)
    app.sink("out", app.source("orders", ORDERS))
    assert only_error(app) == "epoch_s must be more than 0 seconds, got 0"


def test_operator_without_input_or_with_a_duplicate_is_reported():
    app, orders = shop()
    none = app.operator(inputs=[], name="none")(lambda: 1)
    twice = app.operator(inputs=[orders, orders], name="twice")(lambda a, b: a)
    app.sink("a", none)
    app.sink("b", twice)
    assert errors(app) == (
        f"operator 'none' ({none.origin}) reads nothing; give it inputs",
        f"operator 'twice' ({twice.origin}) reads stream 'orders' 2 times; read it once and use the DataFrame twice",
    )


def test_parallelism_without_a_key_or_below_one_is_reported():
    app = App("shop")
    orders = app.source("orders", ORDERS, parallelism=0)
    app.sink("a", app.operator(inputs=orders, parallelism=2, name="keyless")(same))
    app.sink("b", app.operator(inputs=orders, parallelism=-1, name="none")(same))
    message = "\n".join(errors(app))
    assert "has parallelism 0; it must be at least 1" in message
    assert "has parallelism 2 but no key to divide its rows by; give it key=..." in message
    assert "has parallelism -1; it must be at least 1" in message


def test_join_of_one_stream_is_reported():
    app, orders = shop()
    app.sink("out", app.operator(inputs=orders, correlated=True, name="join")(same))
    assert "is correlated but reads one stream; a join needs at least two" in only_error(app)


def test_all_errors_are_reported_together_with_a_cycle():
    app = App("shop", epoch_s=-1)
    orders = app.source("orders", "customer string")
    app.operator(inputs=[orders, "b"], name="a")(lambda x: x)
    app.operator(inputs="a", name="b", correlated=True)(same)
    app.sink("out", "b")
    app.score("nowhere", "1")
    message = "\n".join(errors(app))
    for part in ("no column 'seq'", "takes 1 arguments", "is correlated", "form a cycle", "sink 'nowhere'", "epoch_s"):
        assert part in message
    with pytest.raises(ApplicationError, match=r"^application 'shop' \(test_app.py:\d+\) has 6 errors:"):
        app.graph()


@pytest.mark.parametrize("error", [ApplicationError("x", ["y"])])
def test_application_error_is_a_holdfast_error(error):
    assert isinstance(error, HoldfastError)
