# PocketBase: its API, files, a realtime subscription and a slow upload that are open at SIGTERM.
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
show() { tr -d '\r' | grep -aviE '^(date|last-modified):' | sed -E 's/"(id|created|updated|token|collectionId|file|avatar)":"[^"]*"/"\1":""/g; s/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.Z]*/TIME/g' | sort; echo; }
$APPLICATION superuser upsert a@example.com 1234567890 --dir data > /dev/null 2>&1
$APPLICATION serve --http "127.0.0.1:$PORT" --dir data > log 2>&1 &
APP=$!
URL=http://127.0.0.1:$PORT/api
curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 "$URL/health"
for request in health none collections "collections/users/records" ../_/; do
	echo "== $request"
	curl -si --path-as-is "$URL/$request" | head -c 1500 | show
done
TOKEN=$(curl -s -X POST "$URL/collections/_superusers/auth-with-password" -d identity=a@example.com -d password=1234567890 | sed 's/.*"token":"\([^"]*\)".*/\1/')
echo "== records"
curl -s -H "Authorization: $TOKEN" -X POST "$URL/collections" -H 'Content-Type: application/json' -d '{"name":"notes","type":"base","listRule":"","viewRule":"","createRule":"","fields":[{"name":"text","type":"text"},{"name":"file","type":"file","maxSelect":1,"maxSize":10000000}]}' | sed 's/.*"name":"notes".*/created/'
echo hello > file.txt
head -c 5000000 /dev/zero > big
curl -si -X POST "$URL/collections/notes/records" -F text=a -F file=@file.txt | show
curl -si -X POST "$URL/collections/notes/records" -H 'Content-Type: application/json' -d '{"text":' | show
curl -si -X POST "$URL/collections/notes/records" -F text=b -F file=@big -H Expect: | show
curl -si "$URL/collections/notes/records?sort=text" | show
curl -si --compressed "$URL/collections/notes/records?sort=text" | show
echo "== SIGTERM"
curl -sN "$URL/realtime" > events &
EVENTS=$!
curl -s -o upload -w '%{http_code}\n' --limit-rate 2M -X POST "$URL/collections/notes/records" -F text=c -F file=@big > code &
CLIENT=$!
sleep 1
kill -TERM $APP
wait $EVENTS && echo "events ended" || echo "events: curl $?"
sed -E 's/[A-Za-z0-9]{40}/ID/g' events | head -4
wait $CLIENT && echo "upload: $(cat code)" || echo "upload failed"
wait $APP && echo "exit 0" || echo "exit $?"
sed "s/$PORT/PORT/g; s/^[0-9/]* [0-9:]* //" log
