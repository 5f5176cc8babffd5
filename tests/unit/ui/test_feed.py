"""The feed sends only what has changed."""

import asyncio

from holdfast.ui.feed import generate_frames
from holdfast.ui.past_run import read_run
from holdfast.ui.playback import Playback


def test_only_changed_rows_are_sent_again(past):
    now = [0.0]
    playback = Playback(read_run(past), at_s=5.0, speed=1.0, clock=lambda: now[0])

    async def read_two_frames():
        frames = generate_frames(playback, 0, every_s=0.0, for_s=60.0, after=0, is_over=lambda: False)
        first = await anext(frames)
        now[0] = 0.25  # 5.25 s: trades and vwap have committed the next epoch, index has not
        second = await anext(frames)
        await frames.aclose()
        return first, second

    first, second = asyncio.run(read_two_frames())
    assert set(first) >= {"hello", "jobs", "nodes", "picture", "tasks", "events", "samples", "at_s"}
    assert set(first["tasks"]) == {0, 1, 2, 3}
    assert set(second) == {"tasks", "at_s"}
    assert set(second["tasks"]) < {0, 1, 2, 3}
