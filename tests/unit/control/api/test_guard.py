"""The middleware before the API: too many calls of one node are refused before their bodies are read."""

import asyncio
from types import SimpleNamespace

from holdfast.control.api.guard import BURST, RATE, Guard


class NoFaults:
    async def pass_on(self, node, app, scope, receive, send):
        await app(scope, receive, send)


def orchestrator(*, leads=True):
    return SimpleNamespace(faults=NoFaults(), persistence=SimpleNamespace(database=SimpleNamespace(leads=leads)))


async def test_orchestrator_without_a_lease_answers_no_call():
    reached, answers = [], []

    async def app(scope, receive, send):
        reached.append(scope["path"])

    async def send(message):
        answers.append(message.get("status"))

    await Guard(app, orchestrator=orchestrator(leads=False))({"type": "http", "path": "/v1/jobs"}, None, send)
    assert not reached and answers[0] == 421


def test_node_that_calls_too_often_is_refused_alone():
    reached, answers, now_s = [], [], [0.0]

    async def app(scope, receive, send):
        reached.append(scope["path"])

    async def send(message):
        answers.append(message)

    async def play():
        guard = Guard(app, orchestrator=orchestrator(), clock=lambda: now_s[0])
        for _ in range(int(BURST) + 50):
            await guard({"type": "http", "path": "/v1/nodes/bad/beat"}, None, send)
        assert len(reached) == BURST
        assert [message["status"] for message in answers if message["type"] == "http.response.start"] == [429] * 50
        for path in ("/v1/nodes/good/beat", "/v1/nodes/good/assignment", "/v1/jobs", "/v1/nodes"):
            await guard({"type": "http", "path": path, "method": "GET"}, None, send)
        assert len(reached) == BURST + 4
        now_s[0] = 1.0
        for _ in range(int(RATE) + 50):
            await guard({"type": "http", "path": "/v1/nodes/bad/beat"}, None, send)
        assert len(reached) == BURST + 4 + RATE

    asyncio.run(play())


def test_too_many_registrations_are_refused_before_their_bodies_are_read():
    reached = []

    async def app(scope, receive, send):
        reached.append(dict(scope["headers"]).get(b"x-holdfast-node"))

    async def send(message):
        pass

    async def play():
        guard = Guard(app, orchestrator=orchestrator(), clock=lambda: 0.0)
        for name in [b"bad"] * (int(BURST) + 50) + [b"n%d" % number for number in range(2 * int(BURST))]:
            scope = {"type": "http", "path": "/v1/nodes", "method": "POST", "headers": [(b"x-holdfast-node", name)]}
            await guard(scope, None, send)
        for _ in range(int(BURST) + 50):
            await guard({"type": "http", "path": "/v1/nodes", "method": "POST", "headers": []}, None, send)
        assert [reached.count(name) for name in (b"bad", b"n0", None)] == [BURST, 1, BURST]
        assert len(reached) == 4 * BURST

    asyncio.run(play())


def test_stranger_with_a_nodes_name_uses_none_of_its_calls():
    reached = []

    async def app(scope, receive, send):
        reached.append(scope["headers"])

    async def send(message):
        pass

    async def play():
        guard = Guard(app, orchestrator=orchestrator(), clock=lambda: 0.0)
        for token in [b"Bearer guess"] * (int(BURST) + 50) + [b"Bearer right"]:
            headers = [(b"authorization", token)]
            await guard({"type": "http", "path": "/v1/nodes/n1/beat", "headers": headers}, None, send)
        assert len(reached) == BURST + 1

    asyncio.run(play())
