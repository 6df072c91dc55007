"""Requests by httpx, over HTTP/2, to the URL of the first argument."""

import asyncio
import hashlib
import sys

import httpx

url = sys.argv[1]
content = b"0123456789abcdef" * (5 << 16)


def sum_of(body):
    return "%d %s <nil> " % (len(body), hashlib.sha256(body).hexdigest())


def check(response, want):
    assert response.status_code == 200, response
    assert response.http_version == "HTTP/2", response.http_version
    assert response.text == want, (response.text[:100], want[:100])


def pieces():
    for start in range(0, len(content), 10_000):
        yield content[start : start + 10_000]


def one_by_one():
    with httpx.Client(http1=False, http2=True, verify=False, timeout=60) as client:
        for i in range(50):
            check(client.get(url + "/a?%d" % i), "GET /a?%d" % i)
        check(client.post(url + "/sum", content=content), sum_of(content))
        check(client.post(url + "/sum", content=pieces()), sum_of(content))
        check(client.post(url + "/echo", content=b"hello"), "hello")
        for _ in range(20):  # the client leaves them, without RST_STREAM
            with client.stream("GET", url + "/wait") as response:
                assert response.http_version == "HTTP/2"
        check(client.get(url + "/last"), "GET /last")


async def together():
    async with httpx.AsyncClient(http1=False, http2=True, verify=False, timeout=60) as client:
        responses = await asyncio.gather(*[client.get(url + "/a?%d" % i) for i in range(200)])
        for i, response in enumerate(responses):
            check(response, "GET /a?%d" % i)
        # They fit into the connection's window. httpx sometimes waits for a window that another of its
        # uploads has received already, and then forever: nine times in 60 with net/http's server.
        for response in await asyncio.gather(
            *[client.post(url + "/sum", content=content[:100_000]) for _ in range(5)]
        ):
            check(response, sum_of(content[:100_000]))


one_by_one()
asyncio.run(together())
print("all done")
