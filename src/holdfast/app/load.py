"""Load an application from the Python file that defines it."""

import importlib.util
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path

from holdfast.app.app import App
from holdfast.errors import ApplicationError, HoldfastError


def load_app(path: str | Path) -> App:
    """Return the only App that a file defines at its top level. Runs the file like an import; no operator runs."""
    file = Path(path)
    if file.is_dir():
        raise HoldfastError(f"application file '{path}' is a folder; give the path of a Python file that defines an App")
    if not file.is_file():
        raise HoldfastError(f"application file '{path}' does not exist; give the path of a Python file that defines an App")
    if file.suffix != ".py":
        raise HoldfastError(f"application file '{path}' is not a Python file; its name must end in .py")
    name = f"holdfast_application_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # like an import, for code that looks up its own module while the file runs
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the command's result
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ApplicationError(f"application file '{path}'", [_describe(error, file.resolve())]) from error
    finally:
        del sys.modules[name]  # so that Spark pickles the functions by value: workers cannot import them
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if len({id(app) for app in apps.values()}) != 1:
        count = f"it defines {len(apps)}: {', '.join(sorted(apps))}" if apps else "it defines none"
        raise ApplicationError(f"application file '{path}'", [f"wanted exactly one App at the top level, but {count}"])
    return next(iter(apps.values()))


def _describe(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == file:
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    what = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    if "SESSION_OR_CONTEXT_NOT_EXISTS" in what:
        what += "; Spark does not run while the file is loaded: create UDFs and other Spark objects inside the operator's function"
    return f"line {lines[-1] if lines else '?'}: {what}"
