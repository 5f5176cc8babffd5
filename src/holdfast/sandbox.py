"""Runs the parser of applications without access to what the orchestrator's user has (Linux: Landlock and seccomp).

    python -m holdfast.sandbox LIMIT_S SCRATCH HOME [HIDDEN ...] < job.json

An application's file is code. Until its process ends, it can read files, except the hidden ones and the user's home folder, and
write to the scratch folder. It can open no connection, signal no other process and leave no process behind: its children stay in
its process group, which the orchestrator kills as a whole. Without a hidden path, only the limits apply. This module imports
little, because threads that run before the confinement would not be confined.
"""

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

MEMORY_BYTES, FILE_BYTES, FILES = 8 * 2**30, 64 * 2**20, 1024
ARCHITECTURES = {
    "x86_64": (0xC000003E, {"connect": 42, "setpgid": 109, "setsid": 112, "io_uring_setup": 425}),
    "aarch64": (0xC00000B7, {"connect": 203, "setpgid": 154, "setsid": 157, "io_uring_setup": 425}),
}
"""For each machine, its number in seccomp, and the numbers of the system calls that are refused."""
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
FILESYSTEM = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1, 5: 2**16 - 1}
"""The accesses that each version of Landlock knows first. What is not allowed below is refused."""
SCOPES = 3
"""Abstract sockets and signals, since version 6."""
NO_NEW_PRIVILEGES, SECCOMP = 38, 22
ALLOWED, REFUSED = 0x7FFF0000, 0x00050001


def is_available() -> bool:
    """Return whether this machine can confine a process."""
    return sys.platform == "linux" and platform.machine() in ARCHITECTURES and _landlock_version() >= 1


def confine(scratch: Path, *, home: Path, hidden: Collection[Path], readable: Collection[Path]) -> None:
    """Confine this process for the rest of its life. `readable` are folders that it may read inside the home folder."""
    _check(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _restrict_files(scratch, home=home, hidden=hidden, readable=readable)
    _check(_libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)))  # the administrator's rights, such as to read other processes
    _refuse_calls()


def limit_resources(*, limit_s: int) -> None:
    """Limit the CPU time, memory and files of this process and its children, each."""
    for limit, most in (
        (resource.RLIMIT_CPU, limit_s),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def readable_trees(path: Path, *, hidden: Collection[Path]) -> Iterator[Path]:
    """Yield the folders and files that together are everything under a path, except what is hidden. Links are not followed."""
    if path in hidden:
        return
    if not any(each.is_relative_to(path) for each in hidden):
        yield path
        return
    try:
        children = sorted(path.iterdir())
    except OSError:
        return
    for child in children:
        if not child.is_symlink():
            yield from readable_trees(child, hidden=hidden)


def _restrict_files(scratch: Path, *, home: Path, hidden: Collection[Path], readable: Collection[Path]) -> None:
    version = _landlock_version()
    known = FILESYSTEM[max(first for first in FILESYSTEM if first <= version)]
    attributes = struct.pack("QQQ", known, 0, SCOPES)[: 24 if version >= 6 else 8]
    ruleset = _check(_libc.syscall(CREATE_RULESET, attributes, len(attributes), 0))

    def allow(path: Path, access: int) -> None:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        folder = path.is_dir()
        rule = struct.pack("=Qi", access & known & (-1 if folder else EXECUTE | WRITE_FILE | READ_FILE), parent)
        _libc.syscall(ADD_RULE, ruleset, 1, rule, 0)  # a file system that cannot have rules stays closed
        os.close(parent)

    secret = {Path(os.path.realpath(each)) for each in hidden}
    allow(Path("/"), READ_DIR)  # names are no secret, and Python lists folders to import from them
    for tree in readable_trees(Path("/"), hidden=secret | {home} - {Path("/")}):
        allow(tree, READ_FILE | EXECUTE)
    private = {each for each in home.iterdir() if each.name.startswith(".")} if home.is_dir() else set()
    for each in {Path(os.path.realpath(each)) for each in readable}:
        for tree in readable_trees(each, hidden=secret | private):
            allow(tree, READ_FILE | EXECUTE)
    allow(Path("/dev/null"), WRITE_FILE)
    allow(scratch, known)
    _check(_libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _refuse_calls() -> None:
    """Refuse the system calls that open a connection, or that leave the process group."""
    machine, calls = ARCHITECTURES[platform.machine()]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    program = [(load, 0, 0, 4), (equal, 1, 0, machine), (answer, 0, 0, REFUSED), (load, 0, 0, 0)]
    program.append((at_least, len(calls) + 1, 0, 0x40000000))  # the calls of another word size have other numbers
    program += [(equal, len(calls) - index, 0, number) for index, number in enumerate(calls.values())]
    program += [(answer, 0, 0, ALLOWED), (answer, 0, 0, REFUSED)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    _check(_libc.prctl(SECCOMP, 2, filters, 0, 0))


def _landlock_version() -> int:
    return int(_libc.syscall(CREATE_RULESET, None, 0, 1))


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"the parser cannot be confined: {os.strerror(ctypes.get_errno())}")
    return result


_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    limit_s, scratch, home, *hidden = sys.argv[1:]
    document = json.load(sys.stdin)
    files = [document.get(name) for name in ("application", "plan", "strategy")]
    own = [Path(each).absolute().parent for each in files if isinstance(each, str)]
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent, *(Path(each) for each in sys.path if each)]
    limit_resources(limit_s=int(limit_s))
    if hidden:
        home_path = Path(os.path.realpath(home))
        confine(Path(scratch), home=home_path, hidden=[Path(each) for each in hidden], readable=[*own, *python])
    from holdfast.job_layout import print_layout

    print_layout(document, limit_s=int(limit_s))


if __name__ == "__main__":
    main()
