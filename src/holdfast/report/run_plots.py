"""Draw the plots of a run: output by quality, latency of epochs, lag of PEs and CPU of nodes, with the faults marked."""

from collections.abc import Mapping, Sequence
from math import ceil, nan

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.report.plot import FAINT, INK, LINES, QUALITY, SERIES, draw_svg
from holdfast.trial.checkers import Recovery
from holdfast.trial.run_timeseries import CORRECTED, KINDS, SinkOutput, cpu_of_nodes, lags, output_rates, sink_outputs

MOST_INTERVALS = 240
MOST_POINTS = 1000
"""Up to this many epochs are drawn one by one. Beyond, each interval shows its latest epoch."""

MOST_LINES = 12
"""Number of lines that readers can distinguish. The title says how many more there are."""

SHAPES = {"exact": "o", "tentative": "^", "predicted": "D", "absent": "X"}
COLOURS = {**QUALITY, CORRECTED: SERIES[2]}


class RunPlots:
    """Draws the plots of one run. Times are seconds since the first epoch opened."""

    def __init__(
        self,
        events: Sequence[HistoryEvent],
        tasks: Sequence[Task],
        timeline: Timeline,
        *,
        faults: Sequence[float] = (),
        recovered: Sequence[Recovery] = (),
    ) -> None:
        self._events, self._tasks, self._timeline = events, tasks, timeline
        self._zero_s, self._faults, self._recovered = timeline.opened_s, faults, recovered
        until_s = max((event.at_s for event in events if event.kind in ("output", "commit")), default=timeline.opened_s)
        self._length_s = max(1.0, until_s - self._zero_s)
        self._every_s = max(1, ceil(self._length_s / MOST_INTERVALS))

    def output(self, sink: str) -> str:
        """Plot the rows per second at a sink, by quality."""
        count = int(self._length_s // self._every_s) + 1
        rates = output_rates(self._events, sink, from_s=self._zero_s, every_s=self._every_s, count=count)
        gaps = [output for output in sink_outputs(self._events, sink) if output.kind == "absent"]
        ends = [number * self._every_s for number in range(count + 1)]

        def draw(axes: Axes) -> None:
            base = [0.0] * count
            for kind in KINDS:
                top = [low + more for low, more in zip(base, rates[kind], strict=True)]
                if any(rates[kind]):
                    edges = [*base, base[-1]], [*top, top[-1]]
                    axes.fill_between(ends, *edges, step="post", color=COLOURS[kind], alpha=0.85, linewidth=0, label=kind)
                base = top
            if gaps:
                at = [output.closed_s + output.latency_s - self._zero_s for output in gaps]
                axes.plot(at, [0.0] * len(at), "X", color=COLOURS["absent"], clip_on=False, label="absent: nothing to write")
            axes.set_ylim(bottom=0)
            self._finish(axes, ylabel="rows per second", title=f"Output at {sink}")

        return draw_svg(draw, label=f"rows per second at {sink} over time, by quality", height=3.8)

    def latency(self, sink: str) -> str:
        """Plot the time from the close of each epoch to its output at a sink, and to its correction."""
        outputs = sink_outputs(self._events, sink)
        if len(outputs) > MOST_POINTS:
            outputs = _latest(outputs, every_s=self._every_s)

        def draw(axes: Axes) -> None:
            for kind, shape in SHAPES.items():
                _scatter(axes, [output for output in outputs if output.kind == kind], self._zero_s, shape, COLOURS[kind], kind)
            corrected = [output for output in outputs if output.kind == CORRECTED]
            _scatter(axes, corrected, self._zero_s, "o", COLOURS[CORRECTED], "until it was corrected", hollow=True)
            axes.set_ylim(bottom=0)
            self._finish(
                axes, ylabel="seconds", xlabel="the epoch's close (s)", title=f"From an epoch's close to its output at {sink}"
            )

        return draw_svg(draw, label=f"seconds from the close of each epoch to its output at {sink}", height=3.8)

    def lag(self) -> str:
        """Plot the lag of each PE."""
        moments = [self._zero_s + number * self._every_s for number in range(int(self._length_s // self._every_s) + 2)]
        late = lags(self._events, self._tasks, self._timeline, at_s=moments)
        chosen = sorted(late, key=lambda pe: (-max(lag or 0.0 for lag in late[pe]), pe))[:MOST_LINES]
        more = len(late) - len(chosen)

        def draw(axes: Axes) -> None:
            lines = {pe: [(at, lag) for at, lag in zip(moments, late[pe], strict=True)] for pe in late if pe in chosen}
            self._lines(axes, lines, step=True)
            title = "Lag of PEs" + (f" (the {len(chosen)} latest; {more} more)" if more else "")
            self._finish(axes, ylabel="seconds behind", title=title)

        return draw_svg(draw, label="how many seconds each PE was behind, over time", height=3.8)

    def cpu(self) -> str | None:
        """Plot the cores used by each node. Returns None if the history has no usage."""
        used = cpu_of_nodes(self._events)
        if not used:
            return None
        chosen = dict(list(used.items())[:MOST_LINES])
        more = len(used) - len(chosen)

        def draw(axes: Axes) -> None:
            self._lines(axes, chosen, step=False)
            self._finish(axes, ylabel="cores", title="CPU of nodes" + (f" ({more} more)" if more else ""))

        return draw_svg(draw, label="cores that each node used, over time", height=3.8)

    def _lines(self, axes: Axes, lines: Mapping[str, Sequence[tuple[float, float | None]]], *, step: bool) -> None:
        for number, (name, points) in enumerate(lines.items()):
            axes.plot(
                [at - self._zero_s for at, _ in points],
                [nan if value is None else value for _, value in points],
                drawstyle="steps-post" if step else "default",
                linestyle=LINES[number // len(SERIES) % len(LINES)],
                color=SERIES[number % len(SERIES)],
                label=name,
            )
        axes.set_ylim(bottom=0)

    def _finish(self, axes: Axes, *, ylabel: str, title: str, xlabel: str = "time (s)") -> None:
        """Add numbered lines for faults, shading until failed tasks had recovered, labels and a legend."""
        for began_s, ended_s in _merge_spans([(r.failed_s, r.recovered_s) for r in self._recovered]):
            axes.axvspan(began_s - self._zero_s, ended_s - self._zero_s, color=FAINT, alpha=0.18, linewidth=0)
        for at_s, numbers in _group_moments(self._faults, within_s=self._length_s / 30):
            for number in numbers:
                axes.axvline(self._faults[number - 1] - self._zero_s, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
            over = axes.get_xaxis_transform()
            axes.annotate(label, (at_s - self._zero_s, 1), fontsize=8, xycoords=over, xytext=(3, -9), textcoords="offset points")
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title, xlim=(0, self._length_s + self._every_s))
        axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=2))
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            axes.figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _scatter(
    axes: Axes, outputs: Sequence[SinkOutput], zero_s: float, shape: str, colour: str, label: str, *, hollow: bool = False
) -> None:
    if outputs:
        at, late = [output.closed_s - zero_s for output in outputs], [output.latency_s for output in outputs]
        face = "none" if hollow else colour
        axes.plot(at, late, shape, markeredgecolor=colour, markerfacecolor=face, markeredgewidth=0.8, label=label)


def _latest(outputs: Sequence[SinkOutput], *, every_s: float) -> list[SinkOutput]:
    """Return the output with the highest latency of each kind and interval of time."""
    latest: dict[tuple[str, int], SinkOutput] = {}
    for output in outputs:
        key = output.kind, int(output.closed_s // every_s)
        if key not in latest or output.latency_s > latest[key].latency_s:
            latest[key] = output
    return list(latest.values())


def _merge_spans(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans, with those that overlap merged.

    >>> _merge_spans([(1, 3), (6, 7), (2, 4)])
    [(1, 4), (6, 7)]
    """
    merged: list[tuple[float, float]] = []
    for began, ended in sorted(spans):
        if merged and began <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], ended)
        else:
            merged.append((began, ended))
    return merged


def _group_moments(moments: Sequence[float], *, within_s: float) -> list[tuple[float, list[int]]]:
    """Group moments that are close enough to share a label. Return the last moment and the numbers, from 1, of each group.

    >>> _group_moments([8.0, 8.3, 30.0], within_s=1.0)
    [(8.3, [1, 2]), (30.0, [3])]
    """
    groups: list[tuple[float, list[int]]] = []
    for number, at_s in enumerate(moments, 1):
        if groups and at_s - groups[-1][0] <= within_s:
            groups[-1] = at_s, [*groups[-1][1], number]
        else:
            groups.append((at_s, [number]))
    return groups
