"""Find what an operator must not use, because its rows would differ when an epoch is processed again: clocks, random numbers and
Spark actions."""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast.app import Graph, Operator, Origin
from holdfast.engine.analysis import Schemas, empty
from holdfast.engine.operator_call import call_operator
from holdfast.engine.plan_inspection import expressions, plan_nodes
from holdfast.errors import OperatorError

ACTIONS = (
    "collect",
    "count",
    "first",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "rdd",
    "show",
    "tail",
    "take",
    "toArrow",
    "toLocalIterator",
    "toPandas",
    "write",
    "writeTo",
)
CLOCKS = {
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.time",
    "time.time_ns",
    *(f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")),
}
RANDOM = ("random.", "numpy.random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "posix.urandom")
SEEDED = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")
"""Generators that give the same numbers for the same seed."""

ADVICE = {
    "an action": "it sees only the rows of one epoch, and runs again in each; compute the value within the returned DataFrame",
    "the clock": "an epoch that is processed again would give other rows; use the column 'time' of the rows",
    "randomness": "an epoch that is processed again would give other rows; derive the value from the row, such as xxhash64(seq)",
    "a global variable": "a restarted replica starts without it; keep it in a state_table",
}


@dataclass(frozen=True)
class ForbiddenCall:
    """A call of an operator that makes its rows depend on more than its input."""

    operator: Operator
    kind: str
    call: str
    place: Origin

    def __str__(self) -> str:
        return f"operator '{self.operator.name}' ({self.place}) uses {self.kind}, '{self.call}': {ADVICE[self.kind]}"


def forbidden_calls(spark: SparkSession, graph: Graph, schemas: Schemas) -> list[ForbiddenCall]:
    """Return the forbidden calls of all operators whose inputs have a schema."""
    known = [operator for operator in graph.operators if all(stream in schemas for stream in operator.inputs)]
    return [call for operator in known for call in _calls_of(spark, operator, schemas)]


def _calls_of(spark: SparkSession, operator: Operator, schemas: Schemas) -> list[ForbiddenCall]:
    inputs = [empty(spark, schemas[stream]) for stream in operator.inputs]
    state = spark.createDataFrame([], operator.state.schema) if operator.state else None
    output: DataFrame | None = None
    watched = [*inputs, *([state] if state is not None else [])]
    with recorded_actions(watched) as actions, suppress(OperatorError):  # the analysis reports an operator that raises
        output, _ = call_operator(operator, inputs, state)
    calls = [("an action", name, place) for name, place in actions]
    calls += _python_calls(inspect.unwrap(operator.function), set())
    if output is not None:
        calls += [(kind, name, operator.origin) for kind, name in _plan_calls(output)]
    return [ForbiddenCall(operator, *call) for call in dict.fromkeys(calls)]


@contextmanager
def recorded_actions(inputs: Sequence[DataFrame]) -> Iterator[list[tuple[str, Origin]]]:
    """Record the Spark actions on DataFrames that depend on these inputs, with the line that runs each."""
    leaves = {leaf for frame in inputs for leaf in _leaves(frame)}
    calls: list[tuple[str, Origin]] = []

    def watched(name: str, original: Any) -> Any:
        def record(frame: DataFrame) -> None:
            caller = sys._getframe(2)
            if not caller.f_code.co_filename.startswith(PYSPARK) and leaves.intersection(_leaves(frame)):
                calls.append((name, Origin(caller.f_code.co_filename, caller.f_lineno)))

        def call(frame: DataFrame, *args: Any, **options: Any) -> Any:
            record(frame)
            return original(frame, *args, **options)

        def get(frame: DataFrame) -> Any:
            record(frame)
            return original.__get__(frame)

        return call if callable(original) else property(get)

    originals = {name: ClassicDataFrame.__dict__[name] for name in ACTIONS if name in ClassicDataFrame.__dict__}
    for name, original in originals.items():
        setattr(ClassicDataFrame, name, watched(name, original))
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(ClassicDataFrame, name, original)


PYSPARK = str(Path(pyspark.__file__).parent)


def _leaves(frame: DataFrame) -> set[int]:
    """Return the RDDs that a DataFrame reads."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    nodes = [leaves.apply(index) for index in range(leaves.size())]
    return {node.rdd().id() for node in nodes if node.getClass().getSimpleName() == "LogicalRDD"}


def _plan_calls(output: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the functions of Spark in an operator's plan that read the clock or are random."""
    context: Any = output.sparkSession.sparkContext
    clock = context._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    for node in plan_nodes(output):
        if node.getClass().getSimpleName() == "Sample":
            yield "randomness", "sample"
        for each in expressions(node):
            children = [each.children().apply(index) for index in range(each.children().size())]
            if not children and each.containsPattern(clock):
                yield "the clock", str(each.prettyName())
            if not each.deterministic() and all(child.deterministic() for child in children):
                yield "randomness", str(each.prettyName())


def _python_calls(function: Callable[..., Any], visited: set[CodeType]) -> list[tuple[str, str, Origin]]:
    """Return the calls of clocks and random generators in a function and in those of its module that it uses."""
    if not isinstance(function, FunctionType):
        return []
    closure = inspect.getclosurevars(function).nonlocals
    return _code_calls(function.__code__, {**function.__globals__, **closure}, visited)


def _code_calls(code: CodeType, names: dict[str, Any], visited: set[CodeType]) -> list[tuple[str, str, Origin]]:
    if code in visited:
        return []
    visited.add(code)
    calls: list[tuple[str, str, Origin]] = []
    names = dict(names)
    value: Any = None
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = step.positions.lineno if step.positions and step.positions.lineno else line
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"):
            value = names.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            value = getattr(value, step.argval, None) if _is_known(value) else None
        elif step.opname == "IMPORT_NAME":
            value = _module(step.argval)
        elif step.opname in ("STORE_FAST", "STORE_DEREF"):
            names[step.argval], value = value, None
        elif step.opname == "STORE_GLOBAL":
            calls.append(("a global variable", step.argval, Origin(code.co_filename, line)))
        else:
            value = None
            continue
        kind = _kind_of(value)
        if kind is not None:
            calls.append((kind, _name_of(value), Origin(code.co_filename, line)))
        target = inspect.unwrap(value) if callable(value) and hasattr(value, "__wrapped__") else value
        if isinstance(target, FunctionType) and _same_folder(target.__code__, code):
            calls += _python_calls(target, visited)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            calls += _code_calls(constant, names, visited)
    return calls


def _same_folder(one: CodeType, other: CodeType) -> bool:
    return Path(one.co_filename).parent == Path(other.co_filename).parent


def _is_known(value: Any) -> bool:
    return isinstance(value, ModuleType | type) or callable(value)


def _module(name: str) -> Any:
    """Return a module of the clocks and random generators; None for all others, which an operator may import only when it runs."""
    return import_module(name) if name.split(".")[0] in {"time", "datetime", "random", "secrets", "uuid", "os", "numpy"} else None


def _name_of(value: Any) -> str:
    """Return the name of a function with its module: 'random.random' also for the bound method of the hidden generator."""
    owner = getattr(value, "__self__", None)
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}.{value.__name__}"
    if isinstance(owner, type):
        return f"{owner.__module__}.{owner.__name__}.{value.__name__}"
    if owner is not None:
        kind = type(owner)
        module = "numpy.random" if kind.__module__.startswith("numpy.random") else kind.__module__
        return f"{module}.{value.__name__}"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _kind_of(value: Any) -> str | None:
    if value is None or isinstance(value, ModuleType) or not callable(value):
        return None
    name = _name_of(value)
    if name in CLOCKS:
        return "the clock"
    return "randomness" if name.startswith(RANDOM) and not name.startswith(SEEDED) else None
