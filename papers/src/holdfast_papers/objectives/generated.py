"""Random applications over market data: real operators in random graphs, to test objectives on more than the examples."""

from collections.abc import Callable
from random import Random

HEAD = '''"""A generated application: {operators} operators, seed {seed}."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

app = App("generated-{seed}")
market = app.source(
    "market",
    "seq long, time timestamp, ticker string, kind string, price double, volume long, ask_price double, ask_size long",
    key="ticker",
)


@app.operator(inputs=market)
def trades(market: DataFrame) -> DataFrame:
    return market.where("kind = 'trade'").select("seq", "ticker", F.col("price").alias("value"), "volume")
'''
TAIL = """

app.sink("values", last)
app.score("values", "sum(value * volume)")
"""


def generated_application(seed: int, *, operators: int = 8) -> str:
    """Return the text of an application: a filter of trades, `operators` - 1 operators of five kinds in a random graph, and a sink.

    The last operator is the union of all streams without a reader; the score adds up its values.
    """
    rng = Random(seed)
    names, leaves = ["trades"], ["trades"]
    text = HEAD.format(seed=seed, operators=operators)
    for number in range(1, operators - 1):
        name = f"step_{number}"
        inputs = [rng.choice(leaves if rng.random() < 0.7 else names)]
        others = [other for other in names if other != inputs[0]]
        kind = rng.choice(KINDS if others else KINDS[:-1])
        if kind is _compare:
            inputs.append(rng.choice(others))
        text += kind(name, inputs, rng)
        leaves = [leaf for leaf in leaves if leaf not in inputs] + [name]
        names.append(name)
    return text + _merge("last", leaves) + TAIL


def _filter(name: str, inputs: list[str], rng: Random) -> str:
    limit = rng.choice([4, 6, 8])
    return _operator(name, inputs, "", f'rows.where("volume % 10 < {limit}")')


def _scale(name: str, inputs: list[str], rng: Random) -> str:
    factor = rng.choice([0.5, 1.5, 2.0])
    return _operator(name, inputs, "", f'rows.withColumn("value", F.col("value") * {factor})')


def _smooth(name: str, inputs: list[str], rng: Random) -> str:
    size = rng.choice([3, 5, 10])
    window = f'Window.partitionBy("ticker").orderBy("seq").rowsBetween({1 - size}, 0)'
    body = f'rows.withColumn("value", F.avg("value").over({window}))'
    return _operator(name, inputs, f', keep=last_rows({size - 1}, by="ticker"), key="ticker"', body)


def _change(name: str, inputs: list[str], rng: Random) -> str:
    body = 'rows.withColumn("value", F.abs(F.col("value") - F.lag("value").over(Window.partitionBy("ticker").orderBy("seq"))))'
    return _operator(name, inputs, ', keep=last_rows(1, by="ticker"), key="ticker"', f'{body}.where("value is not null")')


def _compare(name: str, inputs: list[str], rng: Random) -> str:
    """Return an operator that compares each row of the first input with the newest value of the second."""
    first, second = inputs
    return f"""

@app.operator(inputs=[{first}, {second}], keep={{{second}: last_rows(1, by="ticker")}}, correlated=True, key="ticker")
def {name}(rows: DataFrame, others: DataFrame) -> DataFrame:
    so_far = Window.partitionBy("ticker").orderBy("seq", "own").rowsBetween(Window.unboundedPreceding, 0)
    other = others.select("seq", "ticker", F.col("value").alias("other"), F.lit(0).alias("own"))
    return (
        rows.withColumn("own", F.lit(1))
        .unionByName(other, allowMissingColumns=True)
        .withColumn("other", F.last("other", ignorenulls=True).over(so_far))
        .where("own = 1 and other is not null")
        .select("seq", "ticker", F.abs(F.col("value") - F.col("other")).alias("value"), "volume")
    )
"""


def _merge(name: str, inputs: list[str]) -> str:
    if len(inputs) == 1:
        return _operator(name, inputs, "", 'rows.where("value > 0")')
    arguments = ", ".join(f"{each}: DataFrame" for each in inputs)
    union = inputs[0] + "".join(f".unionByName({each})" for each in inputs[1:])
    return f"""

@app.operator(inputs=[{", ".join(inputs)}])
def {name}({arguments}) -> DataFrame:
    return {union}
"""


def _operator(name: str, inputs: list[str], options: str, body: str) -> str:
    return f"""

@app.operator(inputs={inputs[0]}{options})
def {name}(rows: DataFrame) -> DataFrame:
    return {body}
"""


KINDS: tuple[Callable[[str, list[str], Random], str], ...] = (_filter, _smooth, _change, _scale, _compare)
