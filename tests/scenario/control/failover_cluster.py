"""Two orchestrators on one database, and nodes that know both addresses, all as real processes."""

import os
import shutil
import signal
import socket
from pathlib import Path

from holdfast.protocol.client import Client, ClientError, OrchestratorUnreachable
from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster

LEASE_S = 2.0


class FailoverCluster(ProcessCluster):
    """Orchestrators named `a` and `b`, which are each other's standby, and light nodes."""

    def __init__(self, work: Path, database: str, *, lease_s: float = LEASE_S) -> None:
        super().__init__(work)
        self.database, self.lease_s = database, lease_s
        self.ports = {name: _free_port() for name in "ab"}
        self.stopped: set[str] = set()
        token = work / "a"
        token.mkdir(parents=True)
        (token / "user.token").write_text("user-secret\n")
        (token / "node.token").write_text("node-secret\n")
        shutil.copytree(token, work / "b")
        self.urls = ",".join(f"http://127.0.0.1:{port}" for port in self.ports.values())
        self._client = Client(self.urls, "user-secret")

    def start(self, name: str, *options: str) -> None:
        """Start an orchestrator, or a node, in the folder of its predecessor."""
        if name in self.ports:
            address = ("--work", str(self.work / name), "--port", str(self.ports[name]), "--database", self.database)
            options = ("--standby", "--lease", str(self.lease_s), *options)
            self.start_process(name, [*HOLDFAST, "serve", *address, "--recovery-wait", "20", "--capacity-wait", "60", *options])
        else:
            self.start_node(name, "--orchestrator", self.urls, "--token-file", str(self.work / "a" / "node.token"))

    def kill(self, name: str) -> None:
        self.stopped.discard(name)
        super().kill(name)

    def stop(self, name: str) -> None:
        """Stop a process with SIGSTOP, so that it is silent and then continues where it was."""
        os.kill(self.pid(name), signal.SIGSTOP)
        self.stopped.add(name)

    def resume(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGCONT)
        self.stopped.discard(name)

    def health(self, name: str) -> str:
        """Return what an orchestrator answers about itself, or `unreachable`."""
        with Client(f"http://127.0.0.1:{self.ports[name]}", "user-secret") as client:
            try:
                return str(client.health()["state"])
            except (OrchestratorUnreachable, ClientError):
                return "unreachable"

    def serves(self) -> bool:
        return bool(self.client.health()["state"] == "serving")

    def close(self) -> None:
        for name in set(self.stopped):
            self.resume(name)
        super().close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
