"""A cluster's processes end with it, also where its end is interrupted."""

import signal
import sys
import time

import psutil
import pytest

from holdfast.manage.cluster import Cluster
from holdfast.run.cluster import LocalCluster

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({!r}, 'w').close(); time.sleep(600)"


@pytest.mark.parametrize("kind", [Cluster, LocalCluster])
def test_a_second_interrupt_kills_what_the_first_asked_to_end(tmp_path, kind):
    cluster, deaf = kind(tmp_path), tmp_path / "deaf"
    cluster.start_process("n1", [sys.executable, "-c", DEAF.format(str(deaf))])
    ends = time.monotonic() + 20
    while not deaf.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    process = psutil.Process(cluster.pid("n1"))

    def interrupted(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not process.is_running()
