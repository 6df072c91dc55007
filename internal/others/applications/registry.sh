# A container registry, to which crane pushes and from which it pulls. An upload is open at SIGTERM.
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
show() { tr -d '\r' | grep -aviE '^(date|last-modified|docker-upload-uuid):' | sed "s/$PORT/PORT/g; s/[0-9a-f-]\{36\}/UUID/g; s/_state=[^ ]*/_state/" | sort; }
cat > config.yml <<END
version: 0.1
log: {level: info, formatter: json}
storage: {filesystem: {rootdirectory: $HOME/data}, delete: {enabled: true}}
http: {addr: 127.0.0.1:$PORT, draintimeout: 10s}
END
OTEL_TRACES_EXPORTER=none $APPLICATION serve config.yml > log 2>&1 &
APP=$!
URL=http://127.0.0.1:$PORT/v2
curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 "$URL/"
mkdir layer
echo content > layer/file
head -c 2000000 /dev/zero > layer/zeros
tar --mtime=@0 --owner=0 --group=0 -cf layer.tar layer
crane append --insecure -f layer.tar -t "127.0.0.1:$PORT/an/image:1" 2>&1 | show | sed 's/.*pushed/pushed/; s/^[0-9/]* [0-9:]* //' | sort
crane copy --insecure "127.0.0.1:$PORT/an/image:1" "127.0.0.1:$PORT/another:2" 2>&1 | sed 's/^[^ ]* [^ ]* //' | show | sort
crane ls --insecure "127.0.0.1:$PORT/an/image"
crane catalog --insecure "127.0.0.1:$PORT"
crane export --insecure "127.0.0.1:$PORT/another:2" - | tar -t
crane pull --insecure "127.0.0.1:$PORT/another:2" out.tar && tar -xOf out.tar manifest.json | head -c 100
echo
DIGEST=$(crane digest --insecure "127.0.0.1:$PORT/an/image:1")
for request in "/" "/an/image/manifests/$DIGEST" "/none/manifests/1" "/an/image/blobs/sha256:00" "/_catalog?n=1"; do
	echo "== $request"
	curl -si "$URL$request" -H 'Accept: */*' | head -c 1000 | show
	echo
done
curl -si -X DELETE "$URL/an/image/manifests/$DIGEST" | show
echo "== uploads"
UPLOAD=$(curl -si -X POST "$URL/up/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //p')
curl -si -X PATCH -H 'Content-Type: application/octet-stream' --data-binary @layer.tar "$UPLOAD" | show
curl -si -X POST -T layer.tar "$URL/up/blobs/uploads/?digest=sha256:0" | show
echo "== SIGTERM"
UPLOAD=$(curl -si -X POST "$URL/up/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //p')
curl -s --limit-rate 1M -o upload -w '%{http_code}\n' -X PATCH --data-binary @layer.tar "$UPLOAD" > code &
CLIENT=$!
sleep 1
kill -TERM $APP
wait $CLIENT && echo "upload: $(cat code)" || echo "upload failed"
wait $APP && echo "exit 0" || echo "exit $?"
python3 -c '
import json
for line in open("log"):
    try:
        e = json.loads(line)
        print(e.get("level"), e.get("msg"), e.get("http.request.method"), e.get("http.response.status"), e.get("err.code"))
    except ValueError:
        print("access", line.split(chr(34))[1:3])
' | sed "s/$PORT/PORT/g; s/[0-9a-f-]\{36\}/UUID/g; s/_state=[^ ]*/_state/g; s/in [0-9hm]*0s/in TIME/" | sort | uniq -c
