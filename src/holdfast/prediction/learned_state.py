"""What an epoch predictor has learned, as bytes: for an agent that restarts. Reading them runs no code."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.saved_arrays import SavedArrays

FORMAT = 1
DIGEST = hashlib.sha256


class LearnedStateError(HoldfastError):
    """A saved state is damaged, or belongs to another stream, contract or version."""


@dataclass(frozen=True)
class LearnedState:
    """A copy of what a predictor has learned: its keys, their last values, and the accuracy of each algorithm.

    Models are not included, because a predictor trains them again at once. `schema` is that of the stream.
    """

    about: dict[str, Any]
    schema: pa.Schema
    last_rows: pa.Table
    arrays: dict[str, Any]

    @property
    def epoch(self) -> int:
        """The newest epoch that it has learned from."""
        return int(self.about["epoch"])

    def encode(self) -> bytes:
        """Return the state as numpy arrays in one file, behind its digest."""
        parts = {
            "about": json.dumps(self.about).encode(),
            "schema": _arrow_stream(self.schema.empty_table()),
            "last_rows": _arrow_stream(self.last_rows),
        }
        content = io.BytesIO()
        entries: dict[str, Any] = self.arrays | {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
        np.savez(content, **entries)
        return DIGEST(content.getvalue()).digest() + content.getvalue()


def decode_learned_state(content: bytes) -> LearnedState:
    """Return the state in these bytes. Raises LearnedStateError."""
    size = DIGEST().digest_size
    if DIGEST(content[size:]).digest() != content[:size]:
        raise LearnedStateError("its digest does not fit: it is damaged or truncated")
    try:
        with np.load(io.BytesIO(content[size:]), allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(arrays.pop("about").tobytes())
        schema, last_rows = (pa.ipc.open_stream(arrays.pop(name).tobytes()).read_all() for name in ("schema", "last_rows"))
        state = LearnedState(about, schema.schema, last_rows, arrays)
        if about["format"] != FORMAT:
            raise LearnedStateError(f"its format is {about['format']}, and this version reads {FORMAT}")
        int(state.epoch)
        return state
    except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise LearnedStateError(f"it cannot be read: {type(error).__name__}: {error}") from error


def learned_state(predictor: EpochPredictor) -> LearnedState | None:
    """Return a copy of what a predictor has learned; None if it has observed nothing."""
    if predictor.epoch is None:
        return None
    statistics = predictor.statistics
    about = {
        "format": FORMAT,
        "epoch": predictor.epoch,
        "epochs_observed": statistics.epochs_observed,
        "keys": len(statistics),
        "algorithms": [repr(state.predictor) for state in predictor.states],
        "inputs": predictor.input_predictor.echo.names,
        **_conditions(predictor),
    }
    arrays = {
        f"{part}.{name}": array
        for part, component in _components(predictor).items()
        for name, array in component.saved_arrays(len(statistics)).items()
    }
    return LearnedState(about, predictor.columns.schema, statistics.last_rows(np.arange(len(statistics))), arrays)


def restore_learned_state(predictor: EpochPredictor, state: LearnedState) -> None:
    """Let a new predictor continue from a state. Algorithms that the state does not have start without accuracy.

    Raises LearnedStateError if the state does not fit. The predictor must not be used then.
    """
    about, conditions = state.about, _conditions(predictor)
    try:
        for name, expected in conditions.items():
            if about[name] != expected:
                raise LearnedStateError(f"its {name} is {about[name]}, and now {expected}")
        keys, algorithms = int(about["keys"]), list(about["algorithms"])
        former = [algorithms.index(repr(s.predictor)) if repr(s.predictor) in algorithms else -1 for s in predictor.states]
        for rank in predictor.ranks:
            rank.carry_over([-1] * len(algorithms))  # make room for those of the state
        arrays: dict[str, dict[str, Any]] = {}
        for name, array in state.arrays.items():
            part, _, attribute = name.partition(".")
            arrays.setdefault(part, {})[attribute] = array
        components = _components(predictor)
        predictor.statistics.restore(arrays["keys"], state.last_rows, keys=keys, epochs_observed=int(about["epochs_observed"]))
        predictor.input_predictor.echo.restore(about["inputs"], arrays["echo"])
        for part in components.keys() - {"keys", "echo"}:
            components[part].restore_arrays(arrays[part], keys)
    except (KeyError, TypeError, ValueError) as error:
        raise LearnedStateError(f"it does not fit: {error}") from error
    for component in (predictor.cache, *predictor.ranks, *predictor.input_predictor.ranks):
        component.keys = keys
    for rank in predictor.ranks:
        rank.carry_over(former)
    predictor.epoch = state.epoch


def _conditions(predictor: EpochPredictor) -> dict[str, Any]:
    """Return what must be the same for a state to be continued, as JSON values."""
    columns, settings = predictor.columns, predictor.settings
    return {
        "columns": str(columns.schema.remove_metadata()),
        "key": list(columns.keys),
        "numbers": list(columns.numbers),
        "advancing": list(columns.advancing),
        "carried": list(columns.carried),
        "depth": settings.depth,
        "tolerance": settings.tolerance,
    }


def _components(predictor: EpochPredictor) -> dict[str, SavedArrays]:
    """Return the parts of a predictor that have arrays to save, by name."""
    next_rank, later_rank = predictor.ranks
    exact_rank, inexact_rank = predictor.input_predictor.ranks
    return {
        "keys": predictor.statistics,
        "values": predictor.cache,
        "next": next_rank,
        "later": later_rank,
        "exact": exact_rank,
        "inexact": inexact_rank,
        "echo": predictor.input_predictor.echo,
    }


def _arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
