"""A stream of racks, its predictor, and a predictor that misbehaves."""

import numpy as np
import pyarrow as pa

from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("rack", pa.string()),
        pa.field("room", pa.string()),
        pa.field("cpu", pa.float64()),
        pa.field("requests", pa.int32()),
        pa.field("note", pa.string()),
    ]
)


AMPLE_S = 60.0


def rows(epoch, racks, *, cpu=None, requests=None):
    """Return one row per rack. By default cpu rises by 1 per epoch from the rack's own level."""
    count = len(racks)
    return pa.table(
        {
            "seq": 100 * epoch + np.arange(count),
            "epoch": np.full(count, epoch),
            "rack": racks,
            "room": [f"room of {rack}" for rack in racks],
            "cpu": [10.0 * (n + 1) + epoch for n in range(count)] if cpu is None else cpu,
            "requests": pa.array([3 * epoch] * count if requests is None else requests, pa.int32()),
            "note": [f"seen in {epoch}"] * count,
        },
        schema=SCHEMA,
    )


def new_predictor(predictors=None, *, blank=("note",), **changes):
    return EpochPredictor(classify_columns(SCHEMA, ["rack"], blank=blank), predictors, settings=PredictorSettings(**changes))


def observe(predictor, epochs, racks=("a", "b"), **columns):
    for epoch in epochs:
        predictor.observe(epoch, rows(epoch, list(racks), **columns))
        predictor.train()
    return predictor


class Broken:
    """A predictor that returns `how(answer)` after `after` calls with a good answer."""

    least = 1

    def __init__(self, how, *, after=0, name="broken"):
        self.how, self.name, self.after, self.calls = how, name, after, 0

    def train(self, history):
        return np.empty((len(history), 0))

    def forecast(self, history, model, *, steps):
        self.calls += 1
        good = np.repeat(history[:, -1:], steps, axis=1)
        return self.how(good) if self.calls > self.after else good


def raising(answer):
    raise ValueError("no idea")
