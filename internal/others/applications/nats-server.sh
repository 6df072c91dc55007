# nats-server with clients over websockets and its monitoring pages. Clients are connected at SIGTERM.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
NATS=$(port) WS=$(port) PAGES=$(port)
cat > nats.conf <<END
listen: 127.0.0.1:$NATS
http: 127.0.0.1:$PAGES
websocket { listen: "127.0.0.1:$WS", no_tls: true, compression: true }
END
$APPLICATION -c nats.conf 2> log &
APP=$!
curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$PAGES/healthz"
for page in healthz none "" routez; do
	echo "== $page"
	curl -si "http://127.0.0.1:$PAGES/$page" | tr -d '\r' | grep -vE '^Date|^Content-Length|server_id|server_name|"now"|"time"' | head -20 | sort
done
echo "== no websocket"
curl -si "http://127.0.0.1:$WS/" | tr -d '\r' | grep -v ^Date | sort
echo "== websockets"
cat > client.py <<'END'
import json, os, socket, struct, sys

def send(s, text):  # one masked frame
    data = text.encode()
    mask = b"abcd"
    head = bytes([0x82, 0x80 | len(data)]) if len(data) < 126 else bytes([0x82, 0xFE]) + struct.pack(">H", len(data))
    s.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(20)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        while True:
            line = self.file.readline().decode().strip()
            if not line:
                break
            print(line)
        self.frame()  # INFO
        send(self.socket, 'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        print(self.frame())

    def frame(self):
        head = self.file.read(2)
        if len(head) < 2:
            return "end of connection"
        n = head[1] & 0x7F
        if n == 126:
            n = struct.unpack(">H", self.file.read(2))[0]
        return "%x %r" % (head[0], self.file.read(n)[:60])

port, pid = int(sys.argv[1]), int(sys.argv[2])
all = [Client(port) for _ in range(3)]
for c in all[1:]:
    send(c.socket, "SUB a.b 1\r\nPING\r\n")
    print(c.frame())
send(all[0].socket, "PUB a.b 5\r\nhello\r\nPING\r\n")
for c in all[1:] + all[:1]:
    print(c.frame())
os.kill(pid, 15)
for c in all:
    frame = ""
    while frame != "end of connection":
        frame = c.frame()
        print(frame)
END
python3 client.py $WS $APP
wait $APP && echo "exit 0" || echo "exit $?"
sed "s/^[^]]*] [^ ]* [^ ]* //; s/$NATS/NATS/; s/$WS/WS/; s/$PAGES/PAGES/; s/:[0-9]* - /:PORT - /; s/sha256:[0-9a-f]*/SUM/" log | grep -vE 'Name:|ID:|Git:|Version:|GOMEM|Node|Go build' | sort
