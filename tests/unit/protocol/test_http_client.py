"""The HTTP clients of node controllers, against a server with scripted answers."""

import asyncio

import pytest

from holdfast.protocol.http_client import HttpClient, HttpxClient, NoResponse
from holdfast_papers.system_s.lean_http_client import LeanHttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
CLIENTS = pytest.mark.parametrize("client", [HttpxClient, LeanHttpClient])


def play(client, answers: list[bytes | None], scenario) -> list[tuple[int, bytes]]:
    """Run a scenario against a server that gives these answers in turn (None closes the connection).

    Returns the requests, each with the number of its connection.
    """
    requests: list[tuple[int, bytes]] = []
    connections = 0

    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        number = connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
                requests.append((number, head.split(b"\r\n")[0] + b" " + await reader.readexactly(size)))
                answer = answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        http = client()
        port = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(10):
                await scenario(http, f"http://127.0.0.1:{port}")
        finally:
            await http.close()
            server.close()

    asyncio.run(run())
    return requests


async def call(http: HttpClient, url: str, body: bytes | None = None, *, limit_s: float = 5) -> tuple[int, bytes]:
    response = await http.call("POST" if body else "GET", url, headers={"authorization": "Bearer t"}, body=body, limit_s=limit_s)
    return response.status, response.content


@CLIENTS
def test_only_overlapping_requests_open_a_second_connection(client):
    async def scenario(http, url):
        assert await call(http, f"{url}/a?x=1", b"body") == (200, b"hi")
        assert await call(http, f"{url}/b") == (200, b"hi")
        await asyncio.gather(call(http, f"{url}/c"), call(http, f"{url}/c"))

    requests = play(client, [OK] * 4, scenario)
    assert requests[:2] == [(1, b"POST /a?x=1 HTTP/1.1 body"), (1, b"GET /b HTTP/1.1 ")]
    assert {connection for connection, _ in requests[2:]} == {1, 2}


def test_lean_client_replaces_an_idle_connection_that_was_closed():
    async def scenario(http, url):
        await call(http, url)
        assert await call(http, f"{url}/again") == (200, b"hi")

    assert [connection for connection, _ in play(LeanHttpClient, [OK, None, OK], scenario)] == [1, 1, 2]


@CLIENTS
@pytest.mark.parametrize("answer", [None, b"hello\r\n\r\n"])
def test_closed_connection_and_non_http_answer_are_errors(client, answer):
    async def scenario(http, url):
        with pytest.raises(NoResponse):
            await call(http, url)

    play(client, [answer], scenario)


@CLIENTS
def test_late_answer_is_an_error(client):
    async def scenario(http, url):
        with pytest.raises(NoResponse, match=r"no response within 0.05 s"):
            await call(http, url, limit_s=0.05)

    play(client, [b""], scenario)


@CLIENTS
def test_chunked_answers_are_read(client):
    async def scenario(http, url):
        assert await call(http, url) == (201, b"abcde")

    play(client, [b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"], scenario)


@CLIENTS
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://a:99999"])
def test_unreachable_server_and_invalid_url_are_errors(client, url):
    async def run():
        with pytest.raises(NoResponse):
            await call(client(), url)

    asyncio.run(run())
