"""A client of HTTP/3: client.py PORT METHOD PATH BODY prints the status and the body of the response."""

import asyncio
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.status, self.body, self.done = "", b"", asyncio.Event()

    def quic_event_received(self, event):
        for e in self.http.handle_event(event):
            if isinstance(e, HeadersReceived):
                self.status = self.status or dict(e.headers)[b":status"].decode()
            elif isinstance(e, DataReceived):
                self.body += e.data
            if e.stream_ended:
                self.done.set()

    async def request(self, method, path, body):
        stream = self._quic.get_next_available_stream_id()
        self.http.send_headers(stream, [(b":method", method.encode()), (b":scheme", b"https"),
                                        (b":authority", b"localhost"), (b":path", path.encode())], end_stream=not body)
        if body:
            self.http.send_data(stream, body.encode(), end_stream=True)
        self.transmit()
        await asyncio.wait_for(self.done.wait(), 30)


async def main(port, method, path, body):
    config = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", int(port), configuration=config, create_protocol=Client) as client:
        await client.request(method, path, body)
        print(client.status, client.body.decode())


asyncio.run(main(*sys.argv[1:]))
