"""An orchestrator and Spark nodes on this machine, as processes of their own: what a cluster is, only smaller.

`holdfast run` starts the same commands that a user would start on real machines, and watches over them as an init system would.
"""

import json
import math
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.node.agent_processes import FOLDER as AGENTS_FOLDER
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.client import Client
from holdfast.trial.orphan_reaper import kill_hosts
from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster

START_S = 120.0
REVIVE_S = 2.0
"""How long a process that was started again, and ended again, waits for its next start."""


class LocalCluster(ProcessCluster):
    """An orchestrator and nodes below one folder, each node a Spark of its own. Only what was started here is ever ended."""

    def __init__(
        self,
        work: Path,
        *,
        nodes: int = 2,
        cores: float = 1.0,
        memory: str = "1g",
        master: str | None = None,
        racks: int = 0,
        spark_ui: bool = False,
        beat_s: float = 0.25,
        lost_after_s: float = 3.0,
    ) -> None:
        super().__init__(work, serve_options=["--beat", str(beat_s), "--lost-after", str(lost_after_s), "--faults"])
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.racks, self.cores = racks, cores
        self._revived_s: dict[str, float] = {}
        self._spark = ["--cores", str(cores), "--memory", memory, *(["--master", master] if master else [])]
        self._spark += ["--spark-ui"] if spark_ui else []

    def start(self) -> Client:
        """Start everything; a client for it once the orchestrator answers and every node has its Spark."""
        self.start_orchestrator()
        self.wait_until(self._answers, limit_s=START_S, what="the orchestrator answers")
        for name in self.names:
            self.start_node(name)
        self._wait_ready()
        return self.client

    def start_node(self, name: str, *options: str) -> None:
        """Start a node with its PE host; again, if it was killed."""
        work = self.node_work(name)
        if name not in self._nodes:
            self._nodes.append(name)
        base = ["node", "--orchestrator", str(self.folder), "--name", name, "--work", str(work), "--metrics-port", "0"]
        rack = ["--label", f"rack={self.rack(name)}"] if self.racks else []
        self.start_process(name, [*HOLDFAST, *base, *self._spark, *rack, *options])

    def rack(self, name: str) -> str:
        """The rack that a node stands in."""
        return f"r{self.names.index(name) % self.racks + 1}" if self.racks else ""

    def runs(self, name: str) -> bool:
        """Whether a process of that name was started and has not ended."""
        return name in self._processes and self.exit_code(name) is None

    def host_runs(self, name: str) -> bool:
        """Whether a node's PE host lives."""
        return living_host(self.node_work(name)) is not None

    def pe_host_pids(self) -> list[int]:
        """Return the process ids of the PE hosts that run."""
        pids = (living_host(self.node_work(name)) for name in self.names)
        return [pid for pid in pids if pid is not None]

    def agent_statuses(self) -> list[dict[str, Any]]:
        """Return the last status of each prediction agent on any node, including agents that have ended."""
        return [json.loads(path.read_text()) for path in sorted(self.work.glob(f"*/{AGENTS_FOLDER}/*/host.json"))]

    def kill_node(self, name: str) -> None:
        """SIGKILL to everything of a node at once."""
        if self.runs(name):
            self.kill(name)
        kill_hosts(self.node_work(name))

    def restart_killed(self) -> None:
        """Start again what somebody else has killed; what was killed here stays dead until it is started here."""
        for name, process in list(self._processes.items()):
            ended = process.poll() is not None and self._processes.get(name) is process
            if ended and time.monotonic() - self._revived_s.get(name, -math.inf) > REVIVE_S:
                self._revived_s[name] = time.monotonic()
                self.start_orchestrator() if name == "orchestrator" else self.start_node(name)

    def signal_host(self, name: str, what: signal.Signals) -> None:
        """A signal to a node's PE host, its JVM and its workers."""
        pid = living_host(self.node_work(name))
        if pid is not None:
            os.killpg(pid, what)

    def signal(self, name: str, what: signal.Signals) -> None:
        """A signal to the orchestrator or a node's controller, if it lives."""
        if self.runs(name):
            self._processes[name].send_signal(what)

    def _answers(self) -> bool:
        return bool(self.client.health())

    def _wait_ready(self) -> None:
        ends = time.monotonic() + START_S
        waiting = list(self.names)
        while waiting:
            for name in list(waiting):
                path = self.node_work(name) / "host.json"
                status = json.loads(path.read_text()) if path.is_file() else {}
                if status.get("error"):
                    raise HoldfastError(f"node '{name}' cannot start Spark: {status['error']}")
                if status.get("ready"):
                    waiting.remove(name)
                elif not self.runs(name):
                    raise HoldfastError(f"node '{name}' ended before it was ready; {self.last_log_lines(name)}")
            if waiting and time.monotonic() > ends:
                log = self.node_work(waiting[0]) / "host.log"
                raise HoldfastError(
                    f"node '{waiting[0]}' was not ready after {START_S:g} s; see {log}; {self.last_log_lines(waiting[0])}"
                )
            time.sleep(0.05)
