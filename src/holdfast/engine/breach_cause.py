"""Find why an operator breaks the first law, and a keep rule with which it would not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from holdfast.app import Keep, LastEpochs, LastRows, Operator
from holdfast.engine.analysis import empty
from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.operator_call import call_operator
from holdfast.engine.operator_check import OperatorCheck, StrayRow, format_row
from holdfast.engine.plan_inspection import grouping_keys, looking_ahead
from holdfast.engine.row_comparison import Difference
from holdfast.engine.rule_coverage import is_exercised

EVERYTHING = 1 << 40
"""More rows than any key has, to test whether an operator would obey the law if it kept all past rows."""
LENGTHS = (1, 2, 4, 8, 16, 32)
"""The lengths of the rules that are tried for an input without a rule."""


@dataclass(frozen=True)
class LawBreach:
    """An operator whose output depends on more than its input rows and its keep rule: the first row that differs, and advice.

    `circumstance` says what differed between the two runs whose rows these are.
    """

    operator: Operator
    difference: Difference
    advice: str
    circumstance: str = "epoch by epoch"

    def __str__(self) -> str:
        left, right = self.difference.left, self.difference.right
        return (
            f"operator '{self.operator.name}' ({self.operator.origin}) breaks the first law at seq {self.difference.seq}: over the "
            f"whole trace it gives {format_row(left, right)}, {self.circumstance} {format_row(right, left)}; {self.advice}"
        )


def explain_breach(
    check: OperatorCheck, verdict: Difference | StrayRow | None, in_other_order: Difference | None
) -> LawBreach | StrayRow:
    """Return a breach with its cause. At least one of the two differences is given."""
    operator = check.operator
    if (again := check.difference_at_once(check.spans[-1])) is not None:
        return LawBreach(operator, again, NOT_REPEATABLE, "and when it runs again")
    if in_other_order is not None:
        return LawBreach(operator, in_other_order, ORDER, "and with its input rows in another order")
    if isinstance(verdict, StrayRow):
        return verdict
    assert verdict is not None
    return LawBreach(operator, verdict, _advice(check, _span_of(verdict, check.spans)))


NOT_REPEATABLE = "it uses random numbers, the clock, or values that it keeps between calls; its rows may depend only on its input"
ORDER = (
    "it depends on the order of rows, which Spark does not keep: order windows by seq, break ties, and do not use first, last, "
    "collect_list, limit or dropDuplicates without an order"
)


def _span_of(difference: Difference, spans: Sequence[Span]) -> Span:
    row = difference.left or difference.right or {}
    if row.get("epoch") is not None:
        return next((span for span in spans if span.first <= row["epoch"] <= span.last), spans[-1])
    return next((span for span in spans if span.after < difference.seq <= span.until), spans[-1])


def _advice(check: OperatorCheck, span: Span) -> str:
    """Return what to do. Other keep rules are tried on the span that differs, with all spans before it as one."""
    operator = check.operator
    if check.difference_at_once(span) is not None:
        return f"it looks ahead: later rows change its output{_ahead(check)}; use only earlier rows and those of the epoch"
    if operator.state is not None:
        return "its state table must contain everything that the output depends on, and each row must be counted once"
    at = check.spans.index(span)
    short = replace(check, spans=[join_spans(check.spans[:at]), span]) if at else check

    def holds(keep: Mapping[str, Keep]) -> bool:
        return short.with_keep(keep).verdict() is None

    everything: dict[str, Keep] = dict.fromkeys(operator.inputs, LastRows(EVERYTHING, ()))
    if not holds(everything):
        return "keeping more rows would not help: it depends on where epochs end, or on the partitioning of rows"
    advice = []
    for stream in operator.inputs:
        rule = operator.keep.get(stream)
        others = {other: rule_of_other for other, rule_of_other in everything.items() if other != stream}
        if holds(others if rule is None else {**others, stream: rule}):
            continue
        of = f" of '{stream}'" if len(operator.inputs) > 1 else ""
        enough = _sufficient_rule(check, short, stream, others)
        lack = f"looks back at earlier rows{of} but keeps none" if rule is None else f"looks further back than {rule} keeps{of}"
        if enough is None:
            remedy = ": give it a state_table" if rule is None else ", by far: keep more rows, or use a state_table"
            advice.append(f"it {lack}{remedy}")
        else:
            advice.append(f"it {lack}: {enough} would do on this sample")
    return "; ".join(advice) or "it keeps too little of its inputs: keep more of each"


def _ahead(check: OperatorCheck) -> str:
    """Return the constructs that look ahead, if the plan shows them."""
    inputs = [empty(check.spark, check.schemas[stream]) for stream in check.operator.inputs]
    state = check.spark.createDataFrame([], check.operator.state.schema) if check.operator.state else None
    constructs = looking_ahead(call_operator(check.operator, inputs, state)[0])
    return f" ({', '.join(constructs)})" if constructs else ""


def _sufficient_rule(check: OperatorCheck, short: OperatorCheck, stream: str, others: Mapping[str, Keep]) -> Keep | None:
    """Return a keep rule of one input with which the law holds: a longer one of the same kind, or else one of another kind.

    Rules are tried on the short check, which has two spans, and then on all spans.
    """

    def holds(rule: Keep, *, within: OperatorCheck) -> bool:
        return within.with_keep({**others, stream: rule}).verdict() is None

    rule = check.operator.keep.get(stream)
    families: list[tuple[Keep, Sequence[int]]] = []
    if rule is not None:
        families.append((rule, [rule.n * times for times in (2, 4, 8, 16)]))
    of_keys: list[tuple[Keep, Sequence[int]]] = [(LastRows(1, key), LENGTHS) for key in _keys(check, stream)]
    families = [*of_keys, *families] if isinstance(rule, LastRows) and not rule.by else [*families, *of_keys]
    if not isinstance(rule, LastEpochs) and all("epoch" in check.schemas[name].names for name in (stream, check.operator.name)):
        families.append((LastEpochs(1), LENGTHS))
    families.append((LastRows(1, ()), LENGTHS))
    for first, lengths in families:
        shortest = _shortest(first, sorted(lengths), partial(holds, within=short))
        if shortest is not None and not holds(shortest, within=check):
            shortest = _shortest(first, [n for n in sorted(lengths) if n > shortest.n], partial(holds, within=check))
        if shortest is not None and is_exercised(shortest, check.whole[stream], check.spans):
            return shortest
    return None


def _keys(check: OperatorCheck, stream: str) -> list[tuple[str, ...]]:
    """Return the keys by which rules are tried: those of the operator's windows and groups, and its own."""
    operator: Operator = check.operator
    inputs = [empty(check.spark, check.schemas[each]) for each in operator.inputs]
    keys = [*grouping_keys(call_operator(operator, inputs)[0]), operator.key]
    names = set(check.schemas[stream].names) - {"seq"}
    return [key for key in dict.fromkeys(keys) if key and names.issuperset(key)]


def _shortest(rule: Keep, lengths: Sequence[int], holds: Callable[[Keep], bool]) -> Keep | None:
    """Return the shortest rule of a kind with which the law holds, up to the last of the lengths; None if there is none."""
    reach = next((n for n in lengths if holds(replace(rule, n=n))), None)
    if reach is None:
        return None
    too_short = max((n for n in (0, rule.n, *lengths) if n < reach), default=0)
    while reach - too_short > 1:
        middle = (reach + too_short) // 2
        reach, too_short = (middle, too_short) if holds(replace(rule, n=middle)) else (reach, middle)
    return replace(rule, n=reach)
