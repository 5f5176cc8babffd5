"""Predicts the output of a task that is late (ISORC'16). Read `epoch_predictor` first: it joins all parts but the process.

| ISORC'16 | module |
|---|---|
| prediction algorithms (section IV-A) | `predictors`, one module per algorithm |
| prediction agent (section IV-B, Figure 4) | `agent.prediction_agent`; its process is `agent.process` |
| processor monitor | `lateness_monitor` |
| prediction model builder and its data cache | `ranking.model_builder`, `value_cache` |
| algorithm rank | `ranking.algorithm_rank` |
| prediction hot-swap (Equation 1, Algorithm 1) | `ranking.hot_swap` |
| d_p = f(d_in) (Equation 1) | `from_input.echo` |
| QoS deadline | `contract_terms` |
| agent manager (section IV-C): what it shows of an agent | `predictor_document` |

Beyond the paper, `key_statistics` predicts which rows an epoch has, because a stream has many keys.
"""

from holdfast.prediction.column_roles import ColumnRoles, classify_columns
from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.prediction import Prediction
from holdfast.prediction.predictors.nearest_neighbours import NearestNeighbours
from holdfast.prediction.predictors.predictor import Predictor
from holdfast.prediction.predictors.registry import default_predictors, installed_predictors, make_predictor
from holdfast.prediction.settings import PredictorSettings
from holdfast.prediction.warm_up import compile_predictors
