"""A cluster of real processes on this machine: an orchestrator and Spark nodes.

`holdfast run` starts the same commands as a user on real machines, and restarts them as an init system would.
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
RESTART_INTERVAL_S = 2.0
"""The shortest time between two restarts of a process that ends again and again."""


class LocalCluster(ProcessCluster):
    """An orchestrator and nodes below one folder, each node with its own Spark. It ends only processes that it started."""

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
        super().__init__(
            work, serve_options=["--beat", str(beat_s), "--lost-after", str(lost_after_s), "--faults", "--trust-applications"]
        )
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.racks, self.cores = racks, cores
        self._restarted_s: dict[str, float] = {}
        self._spark = ["--cores", str(cores), "--memory", memory, *(["--master", master] if master else [])]
        self._spark += ["--spark-ui"] if spark_ui else []

    def start(self) -> Client:
        """Start all processes. Returns a client once the orchestrator answers and the Spark of every node is ready."""
        self.start_orchestrator()
        self.wait_until(self._answers, limit_s=START_S, what="the orchestrator answers")
        for name in self.names:
            self.start_node(name)
        self._wait_ready()
        return self.client

    def start_node(self, name: str, *options: str) -> None:
        """Start a node controller, which starts the PE host."""
        work = self.node_work(name)
        if name not in self._nodes:
            self._nodes.append(name)
        base = ["node", "--orchestrator", str(self.folder), "--name", name, "--work", str(work), "--metrics-port", "0"]
        rack = ["--label", f"rack={self.rack(name)}"] if self.racks else []
        self.start_process(name, [*HOLDFAST, *base, *self._spark, *rack, *options])

    def rack(self, name: str) -> str:
        """Return the rack of a node, or an empty string if there are no racks."""
        return f"r{self.names.index(name) % self.racks + 1}" if self.racks else ""

    def runs(self, name: str) -> bool:
        """Return whether a process of that name was started and has not ended."""
        return name in self._processes and self.exit_code(name) is None

    def host_runs(self, name: str) -> bool:
        """Return whether the PE host of a node runs."""
        return living_host(self.node_work(name)) is not None

    def pe_host_pids(self) -> list[int]:
        """Return the process ids of the PE hosts that run."""
        pids = (living_host(self.node_work(name)) for name in self.names)
        return [pid for pid in pids if pid is not None]

    def agent_statuses(self) -> list[dict[str, Any]]:
        """Return the last status of each prediction agent on any node, including agents that have ended."""
        return [json.loads(path.read_text()) for path in sorted(self.work.glob(f"*/{AGENTS_FOLDER}/*/host.json"))]

    def kill_node(self, name: str) -> None:
        """SIGKILL the controller, the PE host and the prediction agents of a node."""
        if self.runs(name):
            self.kill(name)
        kill_hosts(self.node_work(name))

    def restart_killed(self) -> None:
        """Restart each process that ended by itself or was killed by others. Processes killed through this object stay dead."""
        for name, process in list(self._processes.items()):
            has_ended = process.poll() is not None and self._processes.get(name) is process
            if has_ended and time.monotonic() - self._restarted_s.get(name, -math.inf) > RESTART_INTERVAL_S:
                self._restarted_s[name] = time.monotonic()
                self.start_orchestrator() if name == "orchestrator" else self.start_node(name)

    def signal_host(self, name: str, what: signal.Signals) -> None:
        """Send a signal to a node's PE host, its JVM and its workers, if they run."""
        pid = living_host(self.node_work(name))
        if pid is not None:
            os.killpg(pid, what)

    def signal(self, name: str, what: signal.Signals) -> None:
        """Send a signal to the orchestrator or a node controller, if it runs."""
        if self.runs(name):
            self._processes[name].send_signal(what)

    def _answers(self) -> bool:
        return bool(self.client.health())

    def _wait_ready(self) -> None:
        ends_s = time.monotonic() + START_S
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
            if waiting and time.monotonic() > ends_s:
                log = self.node_work(waiting[0]) / "host.log"
                raise HoldfastError(
                    f"node '{waiting[0]}' was not ready after {START_S:g} s; see {log}; {self.last_log_lines(waiting[0])}"
                )
            time.sleep(0.05)
