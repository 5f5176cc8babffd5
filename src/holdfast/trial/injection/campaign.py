"""A fault injection campaign against real processes: test after test, on one set of light nodes.

Each test has an orchestrator of its own, on the same database, which dies or lives by the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.control import InjectionTest
from holdfast.node.pe_hosts import living_host
from holdfast.trial.injection.injection_trial import LIMIT_S, NODES, InjectionTrial, InjectionVerdict
from holdfast.trial.injection.transition_scenarios import scenario_for
from holdfast.trial.process_cluster import ProcessCluster

HOLDS_S = (2.0, 5.0, 15.0)
"""How long a job is held up where that is needed; longer when the machine was too slow for the first."""


@dataclass(slots=True)
class Campaign:
    """Runs tests one after another in a folder of its own. `beside` is what else runs meanwhile on the same orchestrator: a context
    that gives what is to be called before each test."""

    work: Path
    beside: Callable[[ProcessCluster], AbstractContextManager[Callable[[], None]]] = lambda cluster: nullcontext(lambda: None)
    serve_options: Sequence[str] = ("--recovery-wait", "15", "--capacity-wait", "15")
    _number: int = field(default=0, init=False)

    def run(self, tests: Sequence[InjectionTest]) -> Iterator[InjectionVerdict]:
        """The verdict of each test, as it is found. All processes are ended at the end, also of an iteration that is given up."""
        with ProcessCluster(self.work, serve_options=self.serve_options, bytecode=self.work / "bytecode") as cluster:
            cluster.start_orchestrator()
            for name in NODES:
                cluster.start_node(name)
            cluster.wait_for_nodes(len(NODES))
            cluster.wait_until(
                lambda: all(living_host(cluster.node_work(name)) for name in NODES), limit_s=LIMIT_S, what="PE hosts"
            )
            with self.beside(cluster) as tend:
                for test in tests:
                    tend()
                    yield self._judged(cluster, test)

    def _judged(self, cluster: ProcessCluster, test: InjectionTest) -> InjectionVerdict:
        """Try a test; again with longer holds where its transition was not reached."""
        for hold_s in HOLDS_S:
            self._number += 1
            script = scenario_for(test.machine, test.state, test.transition, name=f"trial-{self._number}", hold_s=hold_s)
            verdict = InjectionTrial(cluster, test, script, self.work / f"trial-{self._number}.yaml").run()
            if verdict.injected or verdict.missed:
                break
        return verdict
