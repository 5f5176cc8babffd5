"""Loading an application from its file, and what is said when that fails."""

import sys
from pathlib import Path

import pytest

from holdfast.app.load import load_app
from holdfast.errors import ApplicationError, HoldfastError

SHOP = """
from holdfast import App

app = App("shop")
orders = app.source("orders", "seq long, amount double")


@app.operator(inputs=orders)
def large(orders):
    raise AssertionError("an operator ran")


app.sink("alerts", large)
"""


def written(folder: Path, text: str, name: str = "shop.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refused(path: Path | str) -> str:
    with pytest.raises(ApplicationError) as caught:
        load_app(path)
    assert caught.value.thing == f"application file '{path}'"
    assert len(caught.value.errors) == 1
    return caught.value.errors[0]


def test_importing_an_application_file_runs_no_operator(tmp_path):
    app = load_app(written(tmp_path, SHOP))
    assert app.name == "shop"
    assert app.graph().order == ("orders", "large", "alerts")


def test_definitions_point_into_the_file_they_were_loaded_from(tmp_path):
    file = written(tmp_path, SHOP)
    large = load_app(file).graph().operator("large")
    assert (large.origin.file, large.origin.line) == (str(file), SHOP.splitlines().index("@app.operator(inputs=orders)") + 1)


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(HoldfastError, match=r"application file '.*gone.py' does not exist; give the path of a Python file"):
        load_app(tmp_path / "gone.py")


def test_file_that_is_no_python_is_reported(tmp_path):
    with pytest.raises(HoldfastError, match=r"application file '.*shop.txt' is not a Python file; its name must end in .py"):
        load_app(written(tmp_path, SHOP, "shop.txt"))


def test_folder_is_no_application_file(tmp_path):
    with pytest.raises(HoldfastError, match="is a folder; give the path of a Python file that defines an App"):
        load_app(tmp_path)


def test_syntax_error_is_reported_with_its_line(tmp_path):
    assert refused(written(tmp_path, "x = 1\ny = (\n")) == "line 2: '(' was never closed"


def test_exception_is_reported_with_its_line(tmp_path):
    assert refused(written(tmp_path, "x = 1\n\ny = x / 0\n")) == "line 3: ZeroDivisionError: division by zero"


def test_error_from_a_called_function_has_the_files_line(tmp_path):
    assert refused(written(tmp_path, "import json\n\njson.loads('{')\n")).startswith("line 3: JSONDecodeError: ")


def test_relative_path_reports_the_line(tmp_path, monkeypatch):
    written(tmp_path, "x = 1\ny = nothing\n")
    monkeypatch.chdir(tmp_path)
    assert refused("shop.py") == "line 2: NameError: name 'nothing' is not defined"


def test_missing_module_is_reported(tmp_path):
    assert refused(written(tmp_path, "import no_such_module\n")) == "line 1: ModuleNotFoundError: No module named 'no_such_module'"


def test_rejected_definition_is_reported_with_its_line(tmp_path):
    message = refused(written(tmp_path, "from holdfast import last_rows\n\nrule = last_rows(0)\n"))
    assert message == "line 3: last_rows keeps at least 1 row per key, got 0; leave keep out for a stateless operator"


def test_file_that_exits_does_not_end_the_program(tmp_path):
    assert refused(written(tmp_path, "import sys\nsys.exit(3)\n")) == "line 2: SystemExit: 3"


def test_syntax_error_of_an_imported_module_is_reported_at_the_import(tmp_path, monkeypatch):
    written(tmp_path, "(\n", "broken_neighbour.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refused(written(tmp_path, "\nimport broken_neighbour\n")).startswith("line 2: SyntaxError: '(' was never closed")


def test_file_without_an_app_is_reported(tmp_path):
    assert refused(written(tmp_path, "x = 1\n")) == "wanted exactly one App at the top level, but it defines none"


def test_two_apps_are_reported_with_their_names(tmp_path):
    text = "from holdfast import App\nsecond = App('b')\nfirst = App('a')\n"
    assert refused(written(tmp_path, text)) == "wanted exactly one App at the top level, but it defines 2: first, second"


def test_one_app_under_two_names_is_one(tmp_path):
    assert load_app(written(tmp_path, SHOP + "\nalias = app\n")).name == "shop"


def test_loaded_functions_are_pickled_by_value(tmp_path):
    app = load_app(written(tmp_path, SHOP))
    function = app.graph().operator("large").function
    assert function.__module__ not in sys.modules


def test_file_that_fails_leaves_no_module_behind(tmp_path):
    refused(written(tmp_path, "raise ValueError('no')\n", "half.py"))
    assert "holdfast_application_half" not in sys.modules
