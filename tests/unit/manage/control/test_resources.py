"""When nodes are missed: several beats, and never for the orchestrator's own sleep."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.resources import WakingTime, beat_every_s


@given(st.lists(st.floats(0.0, 100.0), max_size=20))
def test_waking_time_passes_at_most_twice_as_fast_as_ticks_were_meant_to(late):
    time = WakingTime(last_s=0.0)
    now_s = 0.0
    for each in late:
        before = time.at(now_s)
        now_s += 0.25 + each
        assert time.tick(now_s, meant_s=0.25) - before <= 0.5 + 1e-9


def test_so_many_nodes_beat_at_most_a_hundred_times_a_second_together():
    for nodes in (1, 50, 90, 1000, 5000):
        assert nodes / beat_every_s(nodes, least_s=0.5) <= 100
