"""A client made of h2, which shows each frame, for the URL of the first argument."""

import socket
import ssl
import sys
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.settings

url = urlsplit(sys.argv[1])


class Client:
    def __init__(self):
        self.socket = socket.create_connection((url.hostname, url.port), timeout=60)
        if url.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname=url.hostname)
            assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.events = []
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def wait(self, kind, stream=None):
        """Returns the next event of a kind, and acknowledges data meanwhile."""
        while True:
            for i, event in enumerate(self.events):
                if isinstance(event, kind) and stream in (None, getattr(event, "stream_id", None)):
                    return self.events.pop(i)
            received = self.socket.recv(65536)
            assert received, "the server has closed the connection"
            for event in self.h2.receive_data(received):
                assert not isinstance(event, h2.events.ConnectionTerminated), event
                if isinstance(event, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.events.append(event)
            self.flush()

    def request(self, path, *fields, method="GET", ends=True):
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", url.scheme), (":authority", url.netloc), (":path", path)]
        self.h2.send_headers(stream, head + list(fields), end_stream=ends)
        self.flush()
        return stream

    def upload(self, stream, content, trailers=()):
        while content:
            size = min(
                self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(content)
            )
            if size == 0:
                self.wait(h2.events.WindowUpdated)
                continue
            self.h2.send_data(stream, content[:size])
            content = content[size:]
            self.flush()
        if trailers:
            self.h2.send_headers(stream, list(trailers), end_stream=True)
        else:
            self.h2.end_stream(stream)
        self.flush()

    def body(self, stream):
        self.wait(h2.events.StreamEnded, stream)
        data = [e for e in self.events if isinstance(e, h2.events.DataReceived) and e.stream_id == stream]
        return b"".join(e.data for e in data).decode()


c = Client()
c.wait(h2.events.RemoteSettingsChanged)
c.wait(h2.events.SettingsAcknowledged)

streams = [c.request("/a?%d" % i) for i in range(100)]
for i, stream in enumerate(streams):
    assert dict(c.wait(h2.events.ResponseReceived, stream).headers)[":status"] == "200"
    assert c.body(stream) == "GET /a?%d" % i

fields = [("expect", "100-continue"), ("trailer", "x-trailer")]
stream = c.request("/sum", *fields, method="POST", ends=False)
assert dict(c.wait(h2.events.InformationalResponseReceived, stream).headers)[":status"] == "100"
c.upload(stream, b"x" * (5 << 20), trailers=[("x-trailer", "7")])
assert c.body(stream).endswith(" <nil> 7")

stream = c.request("/echo", method="POST", ends=False)
c.upload(stream, b"hello")
assert dict(c.wait(h2.events.TrailersReceived, stream).headers) == {"x-length": "5"}
assert c.body(stream) == "hello"

for n in range(200):
    stream = c.request("/wait")
    c.wait(h2.events.ResponseReceived, stream)
    c.h2.reset_stream(stream, error_code=8)
    c.h2.ping(n.to_bytes(8, "big"))
    c.flush()
    assert c.wait(h2.events.PingAckReceived).ping_data == n.to_bytes(8, "big")

codes = h2.settings.SettingCodes
c.h2.update_settings({codes.INITIAL_WINDOW_SIZE: 100, codes.HEADER_TABLE_SIZE: 0})
c.flush()
c.wait(h2.events.SettingsAcknowledged)
stream = c.request("/" + "p" * 1000)
assert c.body(stream) == "GET /" + "p" * 1000

c.h2.close_connection()
c.flush()
c.socket.close()
print("all done")
