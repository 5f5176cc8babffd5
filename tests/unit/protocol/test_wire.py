"""The HTTP line of node controllers, against a server that answers as told."""

import asyncio

import pytest

from holdfast.protocol.messages import Registration
from holdfast.protocol.node_link import Away, Link, Outdated, Place, Refused, Taken, place_at
from holdfast.protocol.wire import Wire, WireError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


def served(answers: list[bytes | None], story):
    """Play a story against a server that gives these answers in turn (None closes the line); what it was asked on which line."""
    asked: list[tuple[int, bytes]] = []
    lines = 0

    async def serve(reader, writer):
        nonlocal lines
        lines += 1
        mine = lines
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
                asked.append((mine, head.split(b"\r\n")[0] + b" " + await reader.readexactly(size)))
                answer = answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def scene():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        wire = Wire()
        port = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(10):
                await story(wire, f"http://127.0.0.1:{port}")
        finally:
            await wire.close()
            server.close()

    asyncio.run(scene())
    return asked


async def called(wire: Wire, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    answer = await wire.call("POST" if body else "GET", url, headers={"authorization": "Bearer t"}, body=body, limit_s=5)
    return answer.status, answer.content


def test_calls_one_after_another_share_a_connection_and_calls_side_by_side_do_not():
    async def story(wire, url):
        assert await called(wire, f"{url}/a?x=1", b"body") == (200, b"hi")
        assert await called(wire, f"{url}/b") == (200, b"hi")
        await asyncio.gather(called(wire, f"{url}/c"), called(wire, f"{url}/c"))

    asked = served([OK] * 4, story)
    assert asked[:2] == [(1, b"POST /a?x=1 HTTP/1.1 body"), (1, b"GET /b HTTP/1.1 ")]
    assert {line for line, _ in asked[2:]} == {1, 2}


def test_a_kept_connection_that_was_closed_is_replaced_and_the_call_made_again():
    async def story(wire, url):
        await called(wire, url)
        assert await called(wire, f"{url}/again") == (200, b"hi")

    assert [line for line, _ in served([OK, None, OK], story)] == [1, 1, 2]


def test_a_fresh_connection_that_is_closed_without_an_answer_is_an_error():
    async def story(wire, url):
        with pytest.raises(WireError, match="the connection was closed"):
            await called(wire, url)

    served([None], story)


def test_chunked_answers_are_read():
    async def story(wire, url):
        assert await called(wire, url) == (201, b"abcde")

    served([b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"], story)


def test_an_answer_that_is_not_http_is_an_error():
    async def story(wire, url):
        with pytest.raises(WireError):
            await called(wire, url)

    served([b"hello\r\n\r\n"], story)


def test_nobody_who_listens_is_an_error():
    async def story():
        with pytest.raises(WireError, match=r"[Cc]onnect"):
            await called(Wire(), "http://127.0.0.1:1/")

    asyncio.run(story())


def test_what_the_orchestrator_answers_decides_what_a_node_does_about_it():
    def said(status: int, text: bytes) -> bytes:
        return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(text), text)

    async def story(wire, url):
        link = Link("n1", lambda: Place(url, "t"), wire)
        with pytest.raises(Outdated, match=r"answered 409: unknown"):
            await link.assignment(1, 1, controller="c")
        with pytest.raises(Away, match=r"answered 500: a page"):
            await link.assignment(1, 1, controller="c")
        with pytest.raises(Refused, match=r"answered 403: no"):
            await link.assignment(1, 1, controller="c")
        with pytest.raises(Refused, match=r"something else than a Assignment"):
            await link.assignment(1, 1, controller="c")
        assert await link.assignment(1, 1, controller="c") is None
        with pytest.raises(Taken, match=r"answered 409: another"):
            await link.register(Registration(name="n1", cores=1, memory_bytes=1))

    answers = [
        said(409, b'{"error": "unknown"}'),
        said(500, b"a page"),
        said(403, b"no"),
        said(200, b"[]"),
        b"HTTP/1.1 204 X\r\n\r\n",
        said(409, b'{"error": "another"}'),
    ]
    served(answers, story)


def test_an_orchestrator_is_found_by_its_folder_and_looked_up_at_every_call(tmp_path):
    find = place_at(str(tmp_path), None)
    with pytest.raises(Away, match=r"address' cannot be read"):
        find()
    (tmp_path / "address").write_text("http://127.0.0.1:1/\n")
    (tmp_path / "node.token").write_text("secret\n")
    assert find() == Place("http://127.0.0.1:1", "secret")
    (tmp_path / "address").write_text("http://127.0.0.1:2\n")
    assert find().url == "http://127.0.0.1:2"
