"""An orchestrator and nodes as real processes on this machine, which can be killed and started again.

Each node has its own process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import HoldfastError
from holdfast.node.light_host import STARTS
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.client import Client, OrchestratorUnreachable, find_client
from holdfast.trial.orphan_reaper import OrphanReaper, kill_hosts

HOLDFAST = (sys.executable, "-m", "holdfast.cli.main")
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
POLL_S = 0.02
STOP_S = 15.0


class ProcessCluster:
    """The processes of one control plane, each with its folder and its log under `work`.

    `close` ends them. If the process that started them is killed before that, the orphan reaper ends them.

    If the environment forbids Python to write bytecode and `bytecode` is given, the processes write it to that folder. Otherwise
    each restarted process would compile everything again.
    """

    def __init__(self, work: Path, *, serve_options: Sequence[str] = (), bytecode: Path | None = None) -> None:
        self.work = work
        self.folder = work / "orchestrator"
        self._options = tuple(serve_options)
        self._environment = dict(os.environ)
        if bytecode is not None and self._environment.pop(_NO_BYTECODE, ""):
            self._environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._nodes: list[str] = []
        self._client: Client | None = None
        self._reaper: OrphanReaper | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start_orchestrator(self, *options: str) -> None:
        """Start the orchestrator, at the address of its predecessor if there was one. Returns at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        address = self.folder / "address"
        port = address.read_text().strip().rsplit(":", 1)[1] if address.exists() else "0"
        self.start_process(
            "orchestrator", [*HOLDFAST, "serve", "--work", str(self.folder), "--port", port, *self._options, *options]
        )

    def kill_orchestrator(self) -> None:
        """SIGKILL the orchestrator and wait until its process has ended, because until then its port is taken."""
        self.kill("orchestrator")

    def start_node(self, name: str, *options: str) -> None:
        """Start a node controller, which starts a light PE host as another process."""
        work = self.node_work(name)
        if name not in self._nodes:
            self._nodes.append(name)
        offer = ["--host-kind", "light", "--cores", "8"]
        base = ["node", "--orchestrator", str(self.folder), "--name", name, *offer, "--work", str(work)]
        self.start_process(name, [*HOLDFAST, *base, *options])

    def node_work(self, name: str) -> Path:
        return self.work / name

    def kill(self, name: str) -> None:
        """SIGKILL a process that this cluster started. The PE host of a killed node controller continues to run."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a process, or None while it runs."""
        return self._processes[name].poll()

    def kill_host(self, name: str) -> None:
        """SIGKILL a node's PE host and the processes it started."""
        pid = living_host(self.node_work(name))
        if pid is not None:
            os.killpg(pid, signal.SIGKILL)

    @property
    def client(self) -> Client:
        """A client of the orchestrator. It stays valid when the orchestrator restarts."""
        if self._client is None:
            self.wait_until(lambda: (self.folder / "address").exists() and (self.folder / "user.token").exists(), limit_s=60)
            self._client = find_client(str(self.folder))
        return self._client

    def wait_until(self, condition: Callable[[], object], *, limit_s: float, what: str = "") -> None:
        """Wait until a condition holds. Raises HoldfastError after `limit_s` seconds, or if the orchestrator's process ends.

        An unreachable orchestrator counts as a condition that does not hold yet.
        """
        ends_s = time.monotonic() + limit_s
        while True:
            try:
                if condition():
                    return
            except OrchestratorUnreachable:
                pass
            if (code := self._orchestrator_exit_code()) is not None:
                raise HoldfastError(f"the orchestrator ended with {code}; {self.last_log_lines('orchestrator')}")
            if time.monotonic() > ends_s:
                raise HoldfastError(f"not within {limit_s:g} s: {what or condition}; {self.last_log_lines('orchestrator')}")
            time.sleep(POLL_S)

    def wait_for_nodes(self, count: int, *, limit_s: float = 120.0) -> None:
        self.wait_until(
            lambda: sum(node["state"] == "up" for node in self.client.nodes()) >= count, limit_s=limit_s, what=f"{count} nodes up"
        )

    def starts(self) -> Counter[tuple[str, int]]:
        """Return how often the PE hosts started each incarnation of each replica."""
        counts: Counter[tuple[str, int]] = Counter()
        for path in self.work.glob(f"*/{STARTS}"):
            for line in path.read_text().splitlines():
                key, incarnation, *_ = line.split()
                counts[key, int(incarnation)] += 1
        return counts

    def last_log_lines(self, name: str) -> str:
        """Return the last lines of a process's log, as part of an error message."""
        path = self.work / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines()[-8:] if path.exists() else []
        return f"the last lines of {name}.log: " + ("\n  ".join(["", *lines]) if lines else "nothing")

    def close(self) -> None:
        """End all processes of the cluster: kill the orchestrator, terminate the others, and kill those that do not end."""
        try:
            self._stop()
        finally:
            for process in self._processes.values():
                process.kill()  # no effect on a process that has ended
                process.wait()
            for name in self._nodes:
                kill_hosts(self.node_work(name))
            if self._reaper is not None:
                self._reaper.close()
                self._reaper = None

    def _stop(self) -> None:
        if self._client is not None:
            self._client.close()
        if "orchestrator" in self._processes and self.exit_code("orchestrator") is None:
            self.kill_orchestrator()
        for process in self._processes.values():
            process.terminate()
        ends_s = time.monotonic() + STOP_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends_s - time.monotonic()))

    def _orchestrator_exit_code(self) -> int | None:
        process = self._processes.get("orchestrator")
        return None if process is None else process.poll()

    def start_process(self, name: str, command: Sequence[str]) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        if self._reaper is None:
            self._reaper = OrphanReaper()
        self._reaper.register(f"node {self.node_work(name).absolute()}")
        with (self.work / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        self._reaper.register(f"process {self._processes[name].pid}")
