"""Find the schema of each stream by calling the operators on empty DataFrames. No Spark job runs."""

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, NumericType, StructType

from holdfast.app import Graph, LastEpochs, LastRows, Operator, Sink, Source
from holdfast.engine.operator_call import call_operator, first_line
from holdfast.engine.query.query_function import examine_query
from holdfast.engine.schema import source_schema
from holdfast.engine.task_division import divide_alike
from holdfast.errors import ApplicationError, HoldfastError

Schemas = Mapping[str, StructType]
"""The schema of each stream, and of each operator's state table under 'state of NAME'."""


def analyse(graph: Graph, spark: SparkSession, *, name: str = "application") -> dict[str, StructType]:
    """Return the schema of every stream. Raises ApplicationError with the errors of all operators."""
    schemas, errors = examine(graph, spark)
    if errors:
        raise ApplicationError(f"application '{name}'", errors)
    return schemas


def examine(graph: Graph, spark: SparkSession) -> tuple[dict[str, StructType], list[str]]:
    """Return the schemas of the valid streams, and the errors of all sources and operators.

    An operator whose inputs have errors is skipped. Its own errors appear once those are fixed.
    """
    schemas: dict[str, StructType] = {}
    errors: list[str] = []
    windowed: set[str] = set()
    beside_queries = {name for part in graph.pes.values() if any(map(graph.reads_query, part)) for name in part}
    for node_name in graph.order:
        node = graph.nodes[node_name]
        if isinstance(node, Source):
            errors += _analyse_source(node, spark, schemas)
        elif isinstance(node, Operator) and all(stream in schemas for stream in node.inputs):
            analyse_node = _analyse_query if node.is_query else _analyse_operator
            node_errors = _keep_errors(node, schemas) or analyse_node(node, spark, schemas)
            if not node_errors and (node.windowed or node_name in beside_queries or windowed.intersection(node.inputs)):
                windowed.add(node_name)
                node_errors = _epoch_error(node, schemas[node_name])
            errors += node_errors
    return schemas, errors


def state_of(operator: str) -> str:
    """Return the key of an operator's state table among the schemas."""
    return f"state of {operator}"


def check_score(graph: Graph, spark: SparkSession, schemas: Schemas, *, sink: str, expression: str) -> list[str]:
    """Return the errors of a score, which must be one number over a sink's rows. A sink whose stream has errors is skipped."""
    node = graph.nodes[sink]
    assert isinstance(node, Sink)
    if node.input not in schemas:
        return []
    try:
        frame = empty(spark, schemas[node.input]).selectExpr("count(*) as rows", f"{expression} as score")
        kind = frame.schema["score"].dataType
    except PySparkException as error:
        return [f"the score '{expression}' of sink '{sink}' cannot be computed as an aggregate of its rows: {first_line(error)}"]
    if not isinstance(kind, NumericType):
        return [f"the score '{expression}' of sink '{sink}' is a {kind.simpleString()}; it must be a number"]
    return []


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows."""
    return spark.createDataFrame([], schema)


def _analyse_source(source: Source, spark: SparkSession, schemas: dict[str, StructType]) -> list[str]:
    who = f"source '{source.name}' ({source.origin})"
    try:
        schema = source_schema(source)
    except ApplicationError as error:
        return [str(error)]
    if not isinstance(schema["seq"].dataType, LongType):
        return [f"{who} has 'seq' as {schema['seq'].dataType.simpleString()}; it must be 'seq long'"]
    if "time" in schema.names and schema["time"].dataType.simpleString() != "timestamp":
        return [f"{who} has 'time' as {schema['time'].dataType.simpleString()}; it must be 'time timestamp'"]
    missing = [name for name in source.key if name not in schema.names]
    if missing:
        return [f"{who} has the key '{missing[0]}', but its columns are: {', '.join(schema.names)}"]
    schemas[source.name] = schema.add("epoch", LongType())
    return []


def _keep_errors(operator: Operator, schemas: Schemas) -> list[str]:
    who = f"operator '{operator.name}' ({operator.origin})"
    errors = []
    for stream, rule in operator.keep.items():
        names = schemas[stream].names
        if isinstance(rule, LastRows):
            errors += [
                f"{who} keeps {rule} of stream '{stream}', which has no column '{column}'; its columns are: {', '.join(names)}"
                for column in rule.by
                if column not in names
            ]
        if isinstance(rule, LastEpochs) and "epoch" not in names:
            errors.append(
                f"{who} keeps {rule} of stream '{stream}', which has no column 'epoch'; select it in operator '{stream}' too"
            )
    return errors


def _analyse_operator(operator: Operator, spark: SparkSession, schemas: dict[str, StructType]) -> list[str]:
    try:
        state = spark.createDataFrame([], operator.state.schema) if operator.state else None
        output, _ = call_operator(operator, [empty(spark, schemas[stream]) for stream in operator.inputs], state)
    except PySparkException as error:
        return [f"operator '{operator.name}' ({operator.origin}) has a state table that Spark cannot read: {first_line(error)}"]
    except HoldfastError as error:
        return [str(error)]
    if state is not None:
        missing = [column for column in (operator.state.by if operator.state else ()) if column not in state.columns]
        if missing:
            return [
                f"operator '{operator.name}' ({operator.origin}) has a state table by '{missing[0]}', which is not among its "
                f"columns: {', '.join(state.columns)}"
            ]
        schemas[state_of(operator.name)] = state.schema
    schemas[operator.name] = output.schema
    missing_key = [column for column in operator.key if not any(column in schemas[s].names for s in operator.inputs)]
    if missing_key:
        return [f"operator '{operator.name}' ({operator.origin}) has the key '{missing_key[0]}', which none of its inputs has"]
    return _key_type_errors(operator, schemas) if operator.parallelism > 1 else []


def _analyse_query(operator: Operator, spark: SparkSession, schemas: dict[str, StructType]) -> list[str]:
    for stream in operator.inputs:
        if "epoch" not in schemas[stream].names:
            return [f"{operator} reads stream '{stream}', which has no column 'epoch'; select it in operator '{stream}' too"]
    try:
        schemas[operator.name] = examine_query(operator, spark, schemas)
    except HoldfastError as error:
        return [str(error)]
    return []


def _key_type_errors(operator: Operator, schemas: Schemas) -> list[str]:
    """Return an error for each key column whose types would send equal keys of two inputs to different tasks."""
    errors: list[str] = []
    for column in operator.key:
        types = {stream: schemas[stream][column].dataType for stream in operator.inputs if column in schemas[stream].names}
        first, *others = types
        errors += [
            f"operator '{operator.name}' ({operator.origin}) divides its inputs by '{column}', which is "
            f"{types[first].simpleString()} in '{first}' and {types[other].simpleString()} in '{other}'; equal keys would "
            "go to different tasks: cast one of them, or use parallelism=1"
            for other in others
            if not divide_alike(types[first], types[other])
        ]
    return errors


def _epoch_error(operator: Operator, schema: StructType) -> list[str]:
    if "epoch" in schema.names:
        return []
    why = "keeps epochs" if operator.windowed else "reads a stream whose rows belong to epochs"
    return [
        f"operator '{operator.name}' ({operator.origin}) {why}, so its output must have the column 'epoch', "
        f"got {', '.join(schema.names)}"
    ]
