"""Runs fault-injection tests of the control plane against real processes, one after another, on one set of light nodes.

Each test starts its own orchestrator, on the same database, because the fault may kill it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.control import InjectionTest
from holdfast.node import living_host
from holdfast.trial import ProcessCluster
from holdfast_papers.system_s.injection.injection_trial import LIMIT_S, NODES, InjectionTrial, InjectionVerdict
from holdfast_papers.system_s.injection.transition_scenarios import scenario_for

HOLDS_S = (2.0, 5.0, 15.0)
"""How long a scenario delays a job. A longer delay is tried if the machine was too slow for a shorter one."""


@dataclass(slots=True)
class Campaign:
    """Runs tests one after another, with all files in the folder `work`.

    `bystander` starts an application that runs on the same orchestrator during the campaign. Its context yields a function, which
    the campaign calls before each test.
    """

    work: Path
    bystander: Callable[[ProcessCluster], AbstractContextManager[Callable[[], None]]] = lambda cluster: nullcontext(lambda: None)
    serve_options: Sequence[str] = ("--recovery-wait", "15", "--capacity-wait", "15")
    _number: int = field(default=0, init=False)

    def run(self, tests: Sequence[InjectionTest]) -> Iterator[InjectionVerdict]:
        """Yield the verdict of each test. All processes end with the iteration, even if it is abandoned."""
        with ProcessCluster(self.work, serve_options=self.serve_options, bytecode=self.work / "bytecode") as cluster:
            cluster.start_orchestrator()
            for name in NODES:
                cluster.start_node(name)
            cluster.wait_for_nodes(len(NODES))
            cluster.wait_until(
                lambda: all(living_host(cluster.node_work(name)) for name in NODES), limit_s=LIMIT_S, what="PE hosts"
            )
            with self.bystander(cluster) as keep_running:
                for test in tests:
                    keep_running()
                    yield self._try_test(cluster, test)

    def _try_test(self, cluster: ProcessCluster, test: InjectionTest) -> InjectionVerdict:
        """Try a test, and try again with a longer delay if the job did not reach the transition."""
        for hold_s in HOLDS_S:
            self._number += 1
            scenario = scenario_for(test.machine, test.state, test.transition, name=f"trial-{self._number}", hold_s=hold_s)
            verdict = InjectionTrial(cluster, test, scenario, self.work / f"trial-{self._number}.yaml").run()
            if verdict.injected or verdict.missed:
                break
        return verdict
