"""What was asked of `holdfast assess`, with every mistake in it that can be found before Spark is started."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.app import App, Graph
from holdfast.app.load import load_app
from holdfast.assess.campaign import OUTAGES_S, Campaign
from holdfast.assess.campaign_fit import Rates
from holdfast.assess.campaign_folder import require_room, require_same_so_far
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
from holdfast.engine.trace_reader import known_rows, require_there
from holdfast.errors import CompoundError, HoldfastError

T = TypeVar("T")


class ErrorCollector:
    """Errors gathered from checks that each raise their own, to be told at once."""

    def __init__(self, thing: str) -> None:
        self._thing, self._found = thing, list[HoldfastError]()

    def of(self, check: Callable[[], T]) -> T | None:
        """What a check gives, or None where it raised."""
        try:
            return check()
        except HoldfastError as error:
            self._found.append(error)
            return None

    def tell(self) -> None:
        """Raise the one error there is as it is, or CompoundError with all there are."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise CompoundError(self._thing, list(dict.fromkeys(said for error in self._found for said in self._said(error))))

    def _said(self, error: HoldfastError) -> Sequence[str]:
        whose = isinstance(error, CompoundError) and error.thing == self._thing
        return error.errors if isinstance(error, CompoundError) and whose else [str(error)]


@dataclass(frozen=True)
class Request:
    """What is to be assessed. Without a trace only the injected graphs are asked for."""

    app: "App"
    graph: "Graph"
    choices: "tuple[Choice, ...]"
    cases: "tuple[Case, ...]"
    fault: Mapping[str, Any]
    scores: "tuple[OutputScore, ...]"
    mapping: dict[str, dict[str, str]] | None
    rates: "Rates | None"


def read_request(app_file: Path, options: Mapping[str, Any]) -> Request:
    """The request that the options make; HoldfastError with all that is wrong with it, as far as no Spark is needed to see it."""
    app = load_app(app_file)
    graph = app.graph()
    errors = ErrorCollector("the campaign")
    fault = errors.of(lambda: parse_fault(options["fault"], side=options["side"]))
    choices, cases = errors.of(lambda: _cases(graph, options, fault)) or ((), ())
    scores = errors.of(lambda: select_scores(app, options["scores"], options["sink"]))
    errors.of(lambda: _require_figures(cases, options, fault=fault, scores=scores or ()))
    if options["explain"]:
        errors.tell()
        return Request(app, graph, choices, cases, fault or {}, tuple(scores or ()), None, None)
    if options["targets"] and scores:
        errors.of(lambda: _require_leading(graph, cases, scores[0].sink))
    errors.of(lambda: _require_trace(graph, options))
    mapping = errors.of(lambda: read_columns(options["columns"], [source.name for source in graph.sources]))
    rates = errors.of(lambda: read_rates(options["profile_file"], graph)) if options["profile_file"] else None
    request = Request(app, graph, choices, cases, fault or {}, tuple(scores or ()), mapping, rates)
    errors.of(lambda: _require_folder(request, app_file, options))
    errors.tell()
    return request


def _cases(
    graph: Graph, options: Mapping[str, Any], fault: Mapping[str, Any] | None
) -> tuple[tuple[Choice, ...], tuple[Case, ...]]:
    """Why each operator is a target or not, and the cases that were asked for or chosen."""
    texts = (*options["targets"], *options["protected"])
    named: list[Target] = group_targets(graph, [[name.strip() for name in text.split(",")] for text in texts])
    targets, groups = named[: len(options["targets"])], named[len(options["targets"]) :]
    choices = choose_targets(graph, kind=(fault or {"kind": "loss"})["kind"], side=options["side"])
    alone = [(choice.name,) for choice in choices if choice.chosen]
    fused = {} if targets else fused_targets(graph, alone, side=options["side"])
    cases = build_cases(targets or [*alone, *fused], groups, failover_s=options["failover_s"], loses=options["side"])
    return (*choices, *fused.values()), tuple(cases)


def _require_figures(
    cases: Sequence[Case], options: Mapping[str, Any], *, fault: Mapping[str, Any] | None, scores: "Sequence[OutputScore]"
) -> None:
    """Raise CompoundError with everything that no trace would make right; what is wrong already is not told again."""
    Campaign(
        subject={},
        cases=tuple(cases) or (Case(("any",), loses=options["side"]),),
        offsets=tuple(options["offsets"]) or (0,),
        outages_s=tuple(options["outages"]) or OUTAGES_S,
        scores=tuple(score.expression for score in scores) or ("any",),
        **campaign_figures(options, fault=fault or {"kind": "loss", "side": options["side"]}),
    )


def _require_leading(graph: Graph, cases: Sequence[Case], sink: str) -> None:
    errors = unreachable_errors(graph, cases, sink)
    if errors:
        raise CompoundError("the campaign", errors)


def _require_trace(graph: Graph, options: Mapping[str, Any]) -> None:
    """Raise HoldfastError for a trace that is not there, or that ends before an offset and says so by itself."""
    if options["trace"] is None:
        raise HoldfastError("assess needs a recorded trace; give its file or folder with --trace")
    require_there(options["trace"])
    rows = known_rows(graph, options["trace"]) if options["offsets"] else None
    past = [offset_error(offset, rows) for offset in options["offsets"] if rows is not None and offset >= rows]
    if past:
        raise CompoundError("the campaign", past)


def _require_folder(request: Request, app_file: Path, options: Mapping[str, Any]) -> None:
    """Raise HoldfastError unless the results folder can take this campaign, as far as it is known without its trace."""
    require_room(options["out"])
    if request.cases and request.scores and request.fault and options["trace"] is not None:
        require_same_so_far(options["out"], json.loads(json.dumps(_known(request, app_file, options))))


def _known(request: Request, app_file: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """As much of the campaign's document as does not depend on what is in the trace."""
    sink = request.scores[0].sink
    subject = describe_partial_subject(request.app, app_file, options["trace"], request.mapping)
    known = campaign_figures(options, fault=request.fault) | {
        "subject": subject | ({"rates": rates_by_name(request.rates)} if request.rates else {}),
        "scores": [score.expression for score in request.scores],
        "sink": sink,
        "affected": options["affected"] or own_affected(request.app, sink),
    }
    given = {"offsets": options["offsets"], "outages_s": options["outages"], "section": options["section"]}
    if options["targets"]:
        given["cases"] = [[list(case.target), case.failover_s] for case in request.cases]
    return known | {name: value for name, value in given.items() if value}
