"""When a PE host is started again, and when its silence is a stall."""

from holdfast.node.host_health import HOST_RETRY_MAX_S, STALL_S, HostHealth
from holdfast.protocol.messages import HostStatus


def beat(at_s: float, *, ready: bool = True) -> HostStatus:
    return HostStatus(pid=1, started_s=0, beat_s=at_s, ready=ready)


def test_deaths_in_a_row_wait_longer_each_time_up_to_a_bound():
    watched, waits = HostHealth(), []
    for now_s in range(0, 1000, 100):
        watched.started(now_s)
        assert watched.died(now_s)
        waits.append(watched.wait_s)
        assert watched.start_at == now_s + watched.wait_s
    assert waits[:4] == [0.5, 1, 2, 4]
    assert waits[-1] == HOST_RETRY_MAX_S
    assert watched.unready_deaths == 10


def test_a_death_is_news_once():
    watched = HostHealth()
    watched.started(0.0)
    assert watched.died(1.0)
    assert not watched.died(2.0)
    assert watched.start_at == 1.5


def test_a_host_that_ran_well_for_long_starts_anew_without_a_record():
    watched = HostHealth()
    for now_s in (0.0, 10.0):
        watched.started(now_s)
        watched.died(now_s)
    watched.started(15.0)
    watched.saw(beat(1), 20.0)
    watched.died(200.0)
    assert (watched.wait_s, watched.unready_deaths) == (0.5, 0)


def test_silence_is_a_stall_only_when_it_is_long():
    watched = HostHealth()
    watched.started(100.0)
    for tick in range(100):
        watched.saw(beat(1), 100.0 + tick / 10)
    assert watched.stalled_s(100.0 + STALL_S - 0.1) == 0
    for tick in range(100, 150):
        watched.saw(beat(1), 100.0 + tick / 10)
    assert watched.stalled_s(115.0) == watched.silent_s(115.0) == 15.0 > STALL_S
    watched.saw(beat(2), 115.1)
    assert watched.stalled_s(115.1) == 0


def test_a_controller_that_was_asleep_itself_blames_nobody():
    watched = HostHealth()
    watched.started(100.0)
    watched.saw(beat(1), 100.0)
    watched.saw(beat(1), 160.0)
    assert watched.stalled_s(160.0) == 0
    watched.saw(beat(1), 160.1)
    assert watched.silent_s(160.1) < 2
    assert watched.silent_s(900.0) < 3


def test_a_host_that_has_not_spoken_yet_is_not_stalled():
    watched = HostHealth()
    watched.started(100.0)
    watched.saw(None, 100.0)
    assert watched.stalled_s(500.0) == 0


def test_a_host_that_never_says_a_word_is_hung_in_the_end_and_one_that_spoke_sooner():
    watched = HostHealth()
    watched.started(100.0)
    for second in range(100, 701):
        watched.saw(None, float(second))
        assert not watched.is_hung(float(second), after_s=60.0)
    watched.saw(None, 700.5)
    assert watched.is_hung(700.5, after_s=60.0)
    watched.saw(beat(1), 701.0)
    for second in range(702, 763):
        watched.saw(beat(1), float(second))
    assert watched.is_hung(762.0, after_s=60.0)
    assert not watched.is_hung(762.0, after_s=62.0)
