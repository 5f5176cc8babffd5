"""A real PostgreSQL server for scenarios."""

import os
import socket
import subprocess
from pathlib import Path


class Server:
    """A PostgreSQL server with its own folder, on loopback."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.run("initdb", "-D", folder / "data", "-U", "holdfast", "--auth=trust", "--no-sync", "-E", "UTF8")
        self.start()

    def database(self, name: str) -> str:
        """Create a database and return its URL."""
        self.run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "holdfast", name)
        return f"postgresql://holdfast@127.0.0.1:{self.port}/{name}"

    def execute(self, statement: str, *, name: str = "postgres") -> None:
        """Execute one statement in a database, as an administrator."""
        self.run("psql", "-h", "127.0.0.1", "-p", self.port, "-U", "holdfast", "-d", name, "-v", "ON_ERROR_STOP=1", "-c", statement)

    def set_read_only(self, read_only: bool) -> None:
        """Refuse the writes of new transactions, as a server does that is not promoted yet in a failover."""
        self.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if read_only else 'off'}")
        self.execute("SELECT pg_reload_conf()")

    def terminate_connections(self) -> None:
        """Break every connection but the administrator's."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def run(self, program: str, *words: object) -> None:
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(self.programs / program), *map(str, words)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, cwd="/", check=False
        )
        assert done.returncode == 0, done.stdout
