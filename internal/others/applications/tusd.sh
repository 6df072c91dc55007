# tusd, which receives resumable uploads. One is open at SIGTERM.
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
show() { tr -d '\r' | grep -aviE '^(date|last-modified):' | sed "s/$PORT/PORT/g; s/[0-9a-f]\{32\}/ID/g" | sort; }
$APPLICATION -host 127.0.0.1 -port "$PORT" -upload-dir data -shutdown-timeout 5s > log 2>&1 &
APP=$!
URL=http://127.0.0.1:$PORT/files/
curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 "$URL"
head -c 3000000 /dev/zero | tr '\0' x > big
create() { curl -si -X POST -H 'Tus-Resumable: 1.0.0' -H "Upload-Length: $1" "$URL" | tr -d '\r' | sed -n 's/^Location: //p'; }
patch() { curl -si -X PATCH -H 'Tus-Resumable: 1.0.0' -H "Upload-Offset: $1" -H 'Content-Type: application/offset+octet-stream' "${@:3}" "$2" | show; }
curl -si -X OPTIONS "$URL" | show
curl -si -X POST -H 'Tus-Resumable: 1.0.0' -H 'Upload-Length: 5' "$URL" | show
LOCATION=$(create 3000000)
echo "== a part, a wrong offset, a HEAD, the rest, chunked"
patch 0 "$LOCATION" -T - < <(head -c 1000000 big)
patch 5 "$LOCATION" --data-binary @big
curl -sI -H 'Tus-Resumable: 1.0.0' "$LOCATION" | show
patch 1000000 "$LOCATION" -T - -H 'Expect:' < <(tail -c 2000000 big)
curl -s "$LOCATION" | cmp - big && echo equal
echo "== too much, no version, GET of nothing, DELETE"
patch 0 "$(create 10)" --data-binary @big
curl -si -X PATCH --data-binary @big "$LOCATION" | show
curl -si "${URL}none" | show
curl -si -X DELETE -H 'Tus-Resumable: 1.0.0' "$LOCATION" | show
echo "== SIGTERM"
LOCATION=$(create 3000000)
patch 0 "$LOCATION" --data-binary @big --limit-rate 1M > upload &
CLIENT=$!
sleep 1
kill -TERM $APP
wait $CLIENT && sed 's/^Upload-Offset: [0-9]*/Upload-Offset/' upload || echo "upload failed"
wait $APP && echo "exit 0" || echo "exit $?"
grep -o 'event="[A-Za-z]*"\|msg="[^"]*"\|method=[A-Z]*\|status=[0-9]*' log | sort | uniq -c
