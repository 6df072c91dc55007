# Caddy as a file server and as a proxy before itself, from its start to SIGTERM with a slow download
# and an upload open.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
show() { tr -d '\r' | grep -aviE '^(date|last-modified|etag|alt-svc):' | sed "s/$FILES/FILES/g; s/$PROXY/PROXY/g; s/nonce[-=\"]*[0-9a-f-]*/nonce/g" | sort; }
FILES=$(port) PROXY=$(port)
mkdir site
echo hello > site/a.txt
head -c 3000000 /dev/zero | tr '\0' x > site/big
cat > Caddyfile <<END
{
	admin off
	auto_https off
	grace_period 5s
	servers {
		protocols h1 h2c
	}
}
http://127.0.0.1:$FILES {
	root $HOME/site
	encode gzip
	file_server browse
	log {
		output file access.log
	}
}
http://127.0.0.1:$PROXY {
	request_body {
		max_size 1MB
	}
	reverse_proxy 127.0.0.1:$FILES
}
END
$APPLICATION run --config Caddyfile 2> caddy.log &
APP=$!
curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$FILES/a.txt"
for port in $FILES $PROXY; do
	for request in a.txt none "" big; do
		echo "== $request"
		curl -si --http1.1 "http://127.0.0.1:$port/$request" | head -c 600 | show
	done
	echo "== range, HEAD, OPTIONS, gzip, HTTP/2, pipelined connections"
	curl -si -r 1-2 "http://127.0.0.1:$port/a.txt" | show
	curl -sI "http://127.0.0.1:$port/big" | show
	curl -si -X OPTIONS "http://127.0.0.1:$port/a.txt" | show
	curl -si --compressed "http://127.0.0.1:$port/big" | head -c 400 | show
	curl -si --http2-prior-knowledge "http://127.0.0.1:$port/a.txt" | show
	curl -s "http://127.0.0.1:$port/a.txt" "http://127.0.0.1:$port/big" "http://127.0.0.1:$port/a.txt" | wc -c
	echo "== an upload that is too large"
	curl -si -H Expect: -T site/big "http://127.0.0.1:$port/a.txt" | show
done
echo "== SIGTERM"
curl -s --limit-rate 1M -o slow "http://127.0.0.1:$PROXY/big" &
DOWNLOAD=$!
sleep 1
kill -TERM $APP
wait $DOWNLOAD && echo "download complete: $(wc -c < slow)" || echo "download failed"
wait $APP && echo "exit 0" || echo "exit $?"
echo "== logs"
python3 -c '
import json
for name in "access.log", "caddy.log":
    for line in (l for l in open(name) if "incomplete response" not in l):
        e = json.loads(line)
        print(name, e.get("level"), e.get("msg"), e.get("status"), e.get("request", {}).get("method"), e.get("request", {}).get("uri"))
' | sort | uniq -c | sed "s/$FILES/FILES/g; s/$PROXY/PROXY/g"
