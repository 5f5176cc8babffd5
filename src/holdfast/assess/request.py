"""Read the options of `holdfast assess`, and report all errors that can be found before Spark is started."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.app import App, Graph
from holdfast.app.load import load_app
from holdfast.assess.campaign import OUTAGES_S, Campaign
from holdfast.assess.campaign_fit import Rates
from holdfast.assess.campaign_folder import require_not_running, require_room, require_same_campaign
from holdfast.assess.campaign_setup import (
    build_cases,
    campaign_figures,
    describe_partial_subject,
    parse_fault,
    rates_by_name,
    read_rates,
    select_scores,
)
from holdfast.assess.case import Case, offset_error, unreachable_errors
from holdfast.assess.fused_targets import fused_targets
from holdfast.assess.output_score import OutputScore, own_affected
from holdfast.assess.targets import Choice, Target, choose_targets, group_targets
from holdfast.documents.column_mapping import read_columns
from holdfast.engine.trace_reader import known_rows, require_trace_exists
from holdfast.errors import CompoundError, HoldfastError

T = TypeVar("T")


class ErrorCollector:
    """Collects the errors of several checks, to raise them together."""

    def __init__(self, thing: str) -> None:
        self._thing, self._errors = thing, list[HoldfastError]()

    def run(self, check: Callable[[], T]) -> T | None:
        """Return the result of a check, or None if it raises HoldfastError, which is collected."""
        try:
            return check()
        except HoldfastError as error:
            self._errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raise the collected error, or CompoundError if there are several."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise CompoundError(self._thing, list(dict.fromkeys(text for error in self._errors for text in self._texts(error))))

    def _texts(self, error: HoldfastError) -> Sequence[str]:
        is_same_thing = isinstance(error, CompoundError) and error.thing == self._thing
        return error.errors if isinstance(error, CompoundError) and is_same_thing else [str(error)]


@dataclass(frozen=True)
class Request:
    """The parsed options of an assessment. With --explain there is no trace, mapping or rates."""

    app: "App"
    graph: "Graph"
    choices: "tuple[Choice, ...]"
    cases: "tuple[Case, ...]"
    fault: Mapping[str, Any]
    scores: "tuple[OutputScore, ...]"
    mapping: dict[str, dict[str, str]] | None
    rates: "Rates | None"


def read_request(app_file: Path, options: Mapping[str, Any]) -> Request:
    """Return the parsed options; HoldfastError with all errors that can be found without Spark."""
    app = load_app(app_file)
    graph = app.graph()
    errors = ErrorCollector("the campaign")
    fault = errors.run(lambda: parse_fault(options["fault"], side=options["side"]))
    choices, cases = errors.run(lambda: _cases(graph, options, fault)) or ((), ())
    scores = errors.run(lambda: select_scores(app, options["scores"], options["sink"]))
    errors.run(lambda: _require_figures(cases, options, fault=fault, scores=scores or ()))
    if options["explain"]:
        errors.raise_all()
        return Request(app, graph, choices, cases, fault or {}, tuple(scores or ()), None, None)
    if options["targets"] and scores:
        errors.run(lambda: _require_path_to_sink(graph, cases, scores[0].sink))
    errors.run(lambda: _require_trace(graph, options))
    mapping = errors.run(lambda: read_columns(options["columns"], [source.name for source in graph.sources]))
    rates = errors.run(lambda: read_rates(options["profile_file"], graph)) if options["profile_file"] else None
    request = Request(app, graph, choices, cases, fault or {}, tuple(scores or ()), mapping, rates)
    errors.run(lambda: _require_folder(request, app_file, options))
    errors.raise_all()
    return request


def _cases(
    graph: Graph, options: Mapping[str, Any], fault: Mapping[str, Any] | None
) -> tuple[tuple[Choice, ...], tuple[Case, ...]]:
    """Return why each operator is a target or not, and the requested or chosen cases."""
    texts = (*options["targets"], *options["protected"])
    named_targets: list[Target] = group_targets(graph, [[name.strip() for name in text.split(",")] for text in texts])
    targets, groups = named_targets[: len(options["targets"])], named_targets[len(options["targets"]) :]
    choices = choose_targets(graph, kind=(fault or {"kind": "loss"})["kind"], side=options["side"])
    single = [(choice.name,) for choice in choices if choice.chosen]
    fused = {} if targets else fused_targets(graph, single, side=options["side"])
    cases = build_cases(targets or [*single, *fused], groups, failover_s=options["failover_s"], loses=options["side"])
    return (*choices, *fused.values()), tuple(cases)


def _require_figures(
    cases: Sequence[Case], options: Mapping[str, Any], *, fault: Mapping[str, Any] | None, scores: "Sequence[OutputScore]"
) -> None:
    """Raise CompoundError for values that are invalid for every trace. Values with errors already collected are replaced by valid
    ones, so that each error is reported once."""
    Campaign(
        subject={},
        cases=tuple(cases) or (Case(("any",), loses=options["side"]),),
        offsets=tuple(options["offsets"]) or (0,),
        outages_s=tuple(options["outages"]) or OUTAGES_S,
        scores=tuple(score.expression for score in scores) or ("any",),
        **campaign_figures(options, fault=fault or {"kind": "loss", "side": options["side"]}),
    )


def _require_path_to_sink(graph: Graph, cases: Sequence[Case], sink: str) -> None:
    errors = unreachable_errors(graph, cases, sink)
    if errors:
        raise CompoundError("the campaign", errors)


def _require_trace(graph: Graph, options: Mapping[str, Any]) -> None:
    """Raise HoldfastError if the trace does not exist, or if its metadata shows that it ends before an offset."""
    if options["trace"] is None:
        raise HoldfastError("assess needs a recorded trace; give its file or folder with --trace")
    require_trace_exists(options["trace"])
    rows = known_rows(graph, options["trace"]) if options["offsets"] else None
    errors = [offset_error(offset, rows) for offset in options["offsets"] if rows is not None and offset >= rows]
    if errors:
        raise CompoundError("the campaign", errors)


def _require_folder(request: Request, app_file: Path, options: Mapping[str, Any]) -> None:
    """Raise HoldfastError unless the results folder can hold this campaign, as far as known without its trace."""
    require_room(options["out"])
    require_not_running(options["out"])
    if request.cases and request.scores and request.fault and options["trace"] is not None:
        require_same_campaign(options["out"], json.loads(json.dumps(_partial_document(request, app_file, options))))


def _partial_document(request: Request, app_file: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the campaign's document that does not depend on the trace's content."""
    sink = request.scores[0].sink
    subject = describe_partial_subject(request.app, app_file, options["trace"], request.mapping)
    document = campaign_figures(options, fault=request.fault) | {
        "subject": subject | ({"rates": rates_by_name(request.rates)} if request.rates else {}),
        "scores": [score.expression for score in request.scores],
        "sink": sink,
        "affected": options["affected"] or own_affected(request.app, sink),
    }
    optional = {"offsets": options["offsets"], "outages_s": options["outages"], "section": options["section"]}
    if options["targets"]:
        optional["cases"] = [[list(case.target), case.failover_s] for case in request.cases]
    return document | {name: value for name, value in optional.items() if value}
