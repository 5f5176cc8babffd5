"""An orchestrator and nodes on this machine, as processes of their own: what a cluster is, only smaller.

`holdfast run` starts the same commands that a user would start on real machines, and watches over them as an init system would.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from holdfast.errors import HoldfastError
from holdfast.manage.client import Client, OrchestratorAway

HOLDFAST = (sys.executable, "-m", "holdfast.cli.main")
START_S = 90.0


@dataclass
class LocalCluster:
    """Processes below one folder. Only what was started here is ever ended, by its pid."""

    work: Path
    nodes: int = 2
    cores: float = 1.0
    memory: str = "1g"
    master: str | None = None
    racks: int = 0
    beat_s: float = 0.25
    lost_after_s: float = 3.0
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    _port: int = field(default=0, init=False)

    @property
    def names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def folder(self, node: str) -> Path:
        return self.work / "nodes" / node

    def start(self) -> Client:
        """Start everything; a client for it once the orchestrator answers."""
        self._port = _free_port()
        self.start_orchestrator()
        for name in self.names:
            self.start_node(name)
        return self.client()

    def client(self) -> Client:
        """A client of the running orchestrator; raises HoldfastError with what it said if it does not come up."""
        token = self.work / "orchestrator" / "user.token"
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            if self._processes["orchestrator"].poll() is not None:
                break
            if token.is_file():
                client = Client(self.url, token.read_text().strip())
                try:
                    client.health()
                except OrchestratorAway:
                    client.close()
                else:
                    return client
            time.sleep(0.05)
        raise HoldfastError(f"the orchestrator did not come up; its last words: {self._last_words('orchestrator')}")

    def wait_ready(self, *, limit_s: float = START_S) -> None:
        """Wait until every node's PE host has its Spark; raises HoldfastError with what a node said that cannot start it."""
        ends = time.monotonic() + limit_s
        waiting = list(self.names)
        while waiting:
            for name in list(waiting):
                path = self.folder(name) / "host.json"
                status = json.loads(path.read_text()) if path.is_file() else {}
                if status.get("error"):
                    raise HoldfastError(f"node '{name}' cannot start Spark: {status['error']}")
                if status.get("ready"):
                    waiting.remove(name)
            if time.monotonic() > ends:
                raise HoldfastError(
                    f"node '{waiting[0]}' was not ready after {limit_s:g} s; its last words: {self._last_words(waiting[0])}; "
                    f"see {self.folder(waiting[0]) / 'host.log'}"
                )
            time.sleep(0.05)

    def start_orchestrator(self) -> None:
        options = ["--work", str(self.work / "orchestrator"), "--port", str(self._port)]
        times = ["--beat", str(self.beat_s), "--lost-after", str(self.lost_after_s)]
        self._spawn("orchestrator", ["serve", *options, *times, "--faults"])

    def start_node(self, name: str) -> None:
        token = self.work / "orchestrator" / "node.token"
        options = ["--orchestrator", self.url, "--token-file", str(token), "--name", name, "--work", str(self.folder(name))]
        options += ["--cores", str(self.cores), "--memory", self.memory, "--metrics-port", "0"]
        options += ["--master", self.master] if self.master else []
        rack = (self.names.index(name) % self.racks) + 1 if self.racks else None
        options += ["--label", f"rack=r{rack}"] if rack else []
        _wait_for(token)
        self._spawn(name, ["node", *options])

    def kill(self, name: str) -> None:
        """SIGKILL to the orchestrator or to a node's controller."""
        process = self._processes[name]
        process.kill()
        process.wait()

    def kill_host(self, node: str) -> None:
        """SIGKILL to a node's PE host, its JVM and its workers."""
        self.signal_host(node, signal.SIGKILL)

    def kill_node(self, node: str) -> None:
        """SIGKILL to everything of a node at once."""
        self.kill(node)
        self.kill_host(node)

    def signal_host(self, node: str, what: signal.Signals) -> None:
        pid = self.host_pid(node)
        if pid is not None:
            os.killpg(pid, what)

    def signal(self, name: str, what: signal.Signals) -> None:
        self._processes[name].send_signal(what)

    def host_pid(self, node: str) -> int | None:
        """The PE host of a node, if it is alive; it leads a process group of its own."""
        path = self.folder(node) / "host.json"
        if not path.is_file():
            return None
        pid = int(json.loads(path.read_text())["pid"])
        try:
            process = psutil.Process(pid)
            return pid if str(self.folder(node)) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None

    def alive(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def stop(self) -> None:
        """End everything, gently at first."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        ends = time.monotonic() + 15
        for name, process in self._processes.items():
            try:
                process.wait(max(0.1, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if name != "orchestrator" and self.host_pid(name) is not None:
                self.kill_host(name)

    def _spawn(self, name: str, arguments: list[str]) -> None:
        log = self.work / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self._processes[name] = subprocess.Popen(
                [*HOLDFAST, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    def _last_words(self, name: str) -> str:
        log = self.work / f"{name}.log"
        lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
        return " | ".join(line for line in lines[-4:] if line.strip()) or "none"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(path: Path) -> None:
    ends = time.monotonic() + START_S
    while not path.is_file() and time.monotonic() < ends:
        time.sleep(0.05)
