"""The token of a node is bound to the node's name."""

import pytest

from holdfast.protocol.node_token import named_node, node_token, own_token

from ..conditions import nodes
from ..conftest import alive, running

N1 = {"headers": {"authorization": f"Bearer {node_token('node-secret', 'n1')}"}}


async def test_node_may_call_for_itself_only(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        (n2,) = nodes(control, "n2")
        async with alive(n2):
            offer = {"name": "n2", "cores": 1, "memory_bytes": 1}
            answers = [
                await control.call("POST", "/v1/nodes", json=offer, **N1),
                await control.call("POST", "/v1/nodes/n2/beat", json={"term": 1}, **N1),
                await control.call("GET", "/v1/nodes/n2/assignment", **N1),
            ]
            assert [answer.status_code for answer in answers] == [403, 403, 403]
            assert all("this is the token of node 'n1'" in answer.json()["error"] for answer in answers)


@pytest.mark.parametrize("token", ["node-secret", "n1~", "n1~00", "~", node_token("other", "n1"), node_token("node-secret", "n2")])
async def test_key_itself_and_wrong_tokens_are_refused(settings, token):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        headers = {"authorization": f"Bearer {token}"}
        answer = await control.call("POST", "/v1/nodes/n1/beat", json={"term": 1}, headers=headers)
        assert answer.status_code == (403 if named_node(token) == "n2" else 401)


async def test_tokens_of_users_and_nodes_are_not_exchangeable(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        user = {"headers": {"authorization": "Bearer user-secret"}}
        assert (await control.call("POST", "/v1/nodes/n1/beat", json={"term": 1}, **user)).status_code == 403
        assert (await control.call("GET", "/v1/jobs", **N1)).status_code == 403


def test_node_derives_its_token_only_where_it_has_the_key():
    token = node_token("key", "n1")
    assert own_token("key", "n1") == token == own_token(token, "n1")
    assert named_node(token) == "n1"
