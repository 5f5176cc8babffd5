"""The health of a PE host: when it may start again, and when its silence is a stall or a hang."""

from holdfast.node.host_health import HOST_RETRY_MAX_S, STALL_S, HostHealth
from holdfast.protocol.messages import HostStatus


def beat(at_s: float, *, ready: bool = True) -> HostStatus:
    return HostStatus(pid=1, started_s=0, beat_s=at_s, ready=ready)


def test_wait_doubles_with_every_death_up_to_a_bound():
    health, waits = HostHealth(), []
    for now_s in range(0, 1000, 100):
        health.note_start(now_s)
        assert health.note_death(now_s)
        waits.append(health.wait_s)
        assert health.start_at_s == now_s + health.wait_s
    assert waits[:4] == [0.5, 1, 2, 4]
    assert waits[-1] == HOST_RETRY_MAX_S
    assert health.unready_deaths == 10


def test_each_death_is_noted_once():
    health = HostHealth()
    health.note_start(0.0)
    assert health.note_death(1.0)
    assert not health.note_death(2.0)
    assert health.start_at_s == 1.5


def test_long_healthy_run_resets_the_wait():
    health = HostHealth()
    for now_s in (0.0, 10.0):
        health.note_start(now_s)
        health.note_death(now_s)
    health.note_start(15.0)
    health.observe(beat(1), 20.0)
    health.note_death(200.0)
    assert (health.wait_s, health.unready_deaths) == (0.5, 0)


def test_only_a_long_silence_is_a_stall():
    health = HostHealth()
    health.note_start(100.0)
    for tick in range(100):
        health.observe(beat(1), 100.0 + tick / 10)
    assert health.stalled_s(100.0 + STALL_S - 0.1) == 0
    for tick in range(100, 150):
        health.observe(beat(1), 100.0 + tick / 10)
    assert health.stalled_s(115.0) == health.silent_s(115.0) == 15.0 > STALL_S
    health.observe(beat(2), 115.1)
    assert health.stalled_s(115.1) == 0


def test_sleep_of_the_observer_is_not_silence_of_the_host():
    health = HostHealth()
    health.note_start(100.0)
    health.observe(beat(1), 100.0)
    health.observe(beat(1), 160.0)
    assert health.stalled_s(160.0) == 0
    health.observe(beat(1), 160.1)
    assert health.silent_s(160.1) < 2
    assert health.silent_s(900.0) < 3


def test_host_without_a_first_beat_is_not_stalled():
    health = HostHealth()
    health.note_start(100.0)
    health.observe(None, 100.0)
    assert health.stalled_s(500.0) == 0


def test_host_without_a_first_beat_is_hung_later_than_one_with():
    health = HostHealth()
    health.note_start(100.0)
    for second in range(100, 701):
        health.observe(None, float(second))
        assert not health.is_hung(float(second), after_s=60.0)
    health.observe(None, 700.5)
    assert health.is_hung(700.5, after_s=60.0)
    health.observe(beat(1), 701.0)
    for second in range(702, 763):
        health.observe(beat(1), float(second))
    assert health.is_hung(762.0, after_s=60.0)
    assert not health.is_hung(762.0, after_s=62.0)
