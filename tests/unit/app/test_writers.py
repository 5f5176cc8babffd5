"""Which arguments a sink's writer may take, and what it is called with."""

from dataclasses import replace

import pytest

from holdfast import App, WriteToken
from holdfast.app.writers import bind_writer
from holdfast.errors import ApplicationError

TOKEN = WriteToken("run", 7, "first", 1)


class Target:
    def write(self, rows, epoch, *, token):
        return rows, epoch, token


@pytest.mark.parametrize(
    ("writer", "arguments"),
    [
        (lambda rows, epoch: (rows, epoch), ("rows", 7)),
        (lambda rows, epoch, quality: (rows, epoch, quality), ("rows", 7, "exact")),
        (lambda rows, epoch, quality, table="t": (rows, epoch, quality, table), ("rows", 7, "exact", "t")),
        (lambda *arguments: arguments, ("rows", 7, "exact")),
        (lambda rows, epoch, quality, token: (rows, epoch, quality, token), ("rows", 7, "exact", TOKEN)),
        (lambda rows, epoch, quality, token=None: (rows, epoch, quality, token), ("rows", 7, "exact", TOKEN)),
        (Target().write, ("rows", 7, TOKEN)),
    ],
)
def test_writer_gets_the_arguments_that_it_takes(writer, arguments):
    calls = []
    bound = bind_writer(writer)
    recording = replace(bound, function=lambda *given, **by_name: calls.append(writer(*given, **by_name)))
    recording("rows", 7, "exact", token=TOKEN)
    assert calls == [arguments]


@pytest.mark.parametrize(
    ("writer", "signature"),
    [
        (lambda rows: None, "takes rows"),
        (lambda: None, "takes nothing"),
        (lambda rows, epoch, quality, fence: None, "takes rows, epoch, quality, fence"),
        (lambda rows, epoch, *, table: None, "takes 'table' by name, but only 'token' is passed by name"),
        (lambda token, rows: None, "takes rows"),
    ],
)
def test_writer_with_other_arguments_is_rejected(writer, signature):
    app = App("shop")
    app.sink("out", app.source("orders", "seq long"), writer=writer)
    with pytest.raises(ApplicationError) as raised:
        app.graph()
    wanted = r"it must take (rows, epoch) or (rows, epoch, quality), and may take 'token'"
    assert f"the writer of sink 'out' (test_writers.py:{app._nodes[1].origin.line}) {signature}; {wanted}" in str(raised.value)


def test_writer_that_is_no_function_is_rejected():
    app = App("shop")
    app.sink("out", app.source("orders", "seq long"), writer="results.db")
    with pytest.raises(ApplicationError, match="writer must be a function, got str"):
        app.graph()
