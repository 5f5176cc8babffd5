"""How much a series' own outcomes weigh against its column's."""

import numpy as np
import pyarrow as pa

from holdfast.prediction import EpochPredictor, columns_of

KEYS, STEPS = 20, 7


def test_four_paths_that_went_on_well_are_less_evidence_than_as_many_single_predictions():
    near, far = EpochPredictor(columns_of(pa.schema({"key": pa.string(), "x": pa.float64()}), ["key"])).ranks
    for rank in (near, far):
        rank.make_room(KEYS)
        paths = np.full((rank.outcomes.shape[2], KEYS, 1, STEPS), np.nan)
        paths[0], paths[1] = 9.0, 1.0  # the first is right about key 0 alone, the second about all others
        paths[0, 0], paths[1, 0] = 1.0, 9.0
        for _ in range(4):
            seen = np.zeros(KEYS, dtype=np.int64)
            for _ in range(STEPS):
                rank.score(paths, seen, slots=np.arange(KEYS), truth=np.ones((KEYS, 1)))
    best = [int(np.argmax(rank.accuracies()[0, 0, :2])) for rank in (near, far)]
    assert best == [0, 1]
