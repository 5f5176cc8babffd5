"""The settings of an orchestrator."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.control.jobs.job_paths import AllowedPaths


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    """The settings that an orchestrator starts with. A node learns from the orchestrator how often to send a beat."""

    work: Path
    database: str
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    address: str = ""
    lease_s: float = 10.0
    standby: bool = False
    restored: bool = False
    beat_s: float = 0.5
    lost_after_s: float = 3.0
    recovery_wait_s: float = 10.0
    capacity_wait_s: float = 10.0
    replicas_per_core: float = 32.0
    machines: tuple[Path, ...] = ()
    bounds: AllowedPaths = field(default_factory=AllowedPaths)
    secrets: tuple[Path, ...] = ()
    trust_applications: bool = False
    plugins: Mapping[str, str] = field(default_factory=dict)
    faults: bool = False
    inject: tuple[Path, ...] = ()
