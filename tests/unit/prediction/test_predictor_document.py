"""The document that describes an epoch predictor."""

import json

from holdfast.prediction import default_predictors
from holdfast.prediction.predictor_document import predictor_document

from .rack_stream import AMPLE_S, new_predictor, observe


def test_document_is_json():
    predictor = observe(new_predictor(default_predictors()), range(20))
    predictor.predict(20, AMPLE_S)
    shown = json.loads(json.dumps(predictor_document(predictor), allow_nan=False))
    assert shown["keys"] == 2
    assert shown["predictions"] == 1
    assert sum(shown["last_used"].values()) == 4
    assert [a["name"] for a in shown["algorithms"]] == [p.name for p in default_predictors()]
