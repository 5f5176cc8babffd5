"""The document that describes an epoch predictor."""

import json

from holdfast.prediction import default_predictors, make_predictor
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.predictors.last_outcome import LastOutcome

from .rack_stream import AMPLE_S, new_predictor, observe


def test_document_is_json():
    predictor = observe(new_predictor(default_predictors()), range(20))
    predictor.predict(20, AMPLE_S)
    shown = json.loads(json.dumps(predictor_view(predictor)(), allow_nan=False))
    assert shown["keys"] == 2
    assert shown["predictions"] == 1
    assert sum(shown["last_used"].values()) == 4
    assert [a["name"] for a in shown["algorithms"]] == [p.name for p in default_predictors()]


def test_document_is_built_while_the_predictor_changes():
    predictor = observe(new_predictor([LastOutcome(), make_predictor("stride")]), range(20))
    build = predictor_view(predictor)
    predictor.use_predictors([make_predictor("autoregressive")])
    observe(predictor, range(20, 40), racks="abcdefghijklmnopqrstuvwxyz")  # more keys than there was room for
    document = build()
    assert (document["epochs_observed"], document["keys"]) == (20, 2)
    assert [algorithm["name"] for algorithm in document["algorithms"]] == ["last-outcome", "stride"]
    assert document["algorithms"][0]["next"]["cpu"]["outcomes"] > 10
