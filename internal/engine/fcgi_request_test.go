package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/engine/fastcgi"
	"github.com/tarehq/tare/internal/testkit"
)

// fcgiDump responds with everything that a handler can observe of its request.
func fcgiDump(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "params %v\n", maps.Collect(fastcgi.Params(r.Context())))
	dumpCalmly(w, r)
}

// likeNginx is the list of parameters that nginx sends with its fastcgi_params.
var likeNginx = []string{
	"QUERY_STRING", "c=d", "REQUEST_METHOD", "GET", "CONTENT_TYPE", "", "CONTENT_LENGTH", "",
	"SCRIPT_NAME", "/a/b", "REQUEST_URI", "/a/b?c=d", "DOCUMENT_URI", "/a/b", "DOCUMENT_ROOT", "/srv/www",
	"SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_SCHEME", "http", "GATEWAY_INTERFACE", "CGI/1.1", "SERVER_SOFTWARE",
	"nginx/1.28.0",
	"REMOTE_ADDR", "192.0.2.7", "REMOTE_PORT", "40000", "REMOTE_USER", "ann", "SERVER_ADDR", "192.0.2.1",
	"SERVER_PORT", "80", "SERVER_NAME", "_",
	"REDIRECT_STATUS", "200", "HTTP_HOST", "example.org", "HTTP_USER_AGENT", "curl/8.5.0", "HTTP_ACCEPT", "*/*",
}

// listed returns a request with exactly these parameters.
func listed(pairs ...string) string {
	return begins(1, true) + inRecords(paramsStream, 1, largestContent, nameValues(pairs...)) + rec(stdinStream, 1, "")
}

func with(pairs ...string) string { return fcgiRequest{params: pairs}.String() }

// fcgiRequests are parameters with the expected lines of fcgiDump's response, or the start of the
// response of a rejected request. Nothing is expected of those whose Request is net/http/fcgi's.
var fcgiRequests = map[string]struct{ request, want string }{
	"as nginx sends it": {listed(likeNginx...), `params map[CONTENT_LENGTH: CONTENT_TYPE: DOCUMENT_ROOT:/srv/www DOCUMENT_URI:/a/b GATEWAY_INTERFACE:CGI/1.1 HTTP_ACCEPT:*/* HTTP_HOST:example.org HTTP_USER_AGENT:curl/8.5.0 QUERY_STRING:c=d REDIRECT_STATUS:200 REMOTE_ADDR:192.0.2.7 REMOTE_PORT:40000 REMOTE_USER:ann REQUEST_METHOD:GET REQUEST_SCHEME:http REQUEST_URI:/a/b?c=d SCRIPT_NAME:/a/b SERVER_ADDR:192.0.2.1 SERVER_NAME:_ SERVER_PORT:80 SERVER_PROTOCOL:HTTP/1.1 SERVER_SOFTWARE:nginx/1.28.0]
`},

	"other method": {fcgiRequest{method: "PROPFIND"}.String(), ""},
	"HTTP/2.0":     {with("SERVER_PROTOCOL", "HTTP/2.0"), ""},
	"included":     {with("SERVER_PROTOCOL", "INCLUDED"), ""},
	"HTTP/1.0":     {with("SERVER_PROTOCOL", "HTTP/1.0"), ""},
	"last of two":  {with("REQUEST_METHOD", "PUT"), ""},
	"escaped":      {fcgiRequest{uri: "/a%2Fb%20c?d%20e"}.String(), ""},
	"empty query":  {fcgiRequest{uri: "/a?"}.String(), ""},
	"absolute target": {fcgiRequest{uri: "http://b:80/c", params: []string{"HTTP_HOST", "a"}}.String(),
		`host "b:80" remote`},
	"OPTIONS *": {fcgiRequest{method: "OPTIONS", uri: "*"}.String(), ""},

	"without REQUEST_URI": {located("SCRIPT_NAME", "/app", "PATH_INFO", "/x/y", "QUERY_STRING", "q=1"),
		`GET "/app/x/y?q=1" HTTP/1.1 1.1`},
	"without, unescaped": {located("SCRIPT_NAME", "/a b", "PATH_INFO", "/c?d"),
		`GET "/a%20b/c%3Fd" HTTP/1.1 1.1` + "\n" +
			`url url.URL{Scheme:"", Opaque:"", User:(*url.Userinfo)(nil), Host:"", Path:"/a b/c?d"`},
	"without, no query":        {located("SCRIPT_NAME", "/a", "QUERY_STRING", ""), ""},
	"without, PATH_INFO alone": {located("PATH_INFO", "/a"), ""},
	"without, nothing":         {located(), `GET "/" HTTP/1.1`},
	"without, query that breaks out": {located("SCRIPT_NAME", "/", "QUERY_STRING", "a b"),
		"400 Bad Request: malformed request target"},

	"remote":                {with("REMOTE_ADDR", "192.0.2.1", "REMOTE_PORT", "65535"), ""},
	"remote, IPv6":          {with("REMOTE_ADDR", "2001:db8::1", "REMOTE_PORT", "1"), ""},
	"remote without a port": {with("REMOTE_ADDR", "192.0.2.1"), ""},
	"remote, bad port":      {with("REMOTE_ADDR", "192.0.2.1", "REMOTE_PORT", "65536"), `remote "192.0.2.1:0"`},
	"no remote, no host":    {aGET("/"), ""},

	"HTTPS on":    {with("HTTPS", "on"), ""},
	"HTTPS 1":     {with("HTTPS", "1"), ""},
	"HTTPS off":   {with("HTTPS", "off"), ""},
	"HTTPS empty": {with("HTTPS", ""), ""},

	"host":       {with("HTTP_HOST", "a:8080"), ""},
	"empty host": {with("HTTP_HOST", ""), ""},

	"names": {with("HTTP_X_FORWARDED_FOR", "1", "HTTP_SEC_CH_UA", "2", "HTTP_ETAG", "3", "HTTP_TE",
		"4", "HTTP_WWW_AUTHENTICATE", "5", "HTTP_X_UNHEARD_OF", "6", "HTTP_x_lower", "7"), ""},
	"repeated names": {with("HTTP_COOKIE", "a=b", "HTTP_X_A", "1", "HTTP_COOKIE", "c=d", "HTTP_x_a",
		"2", "HTTP_X_A", ""),
		"header map[Cookie:[a=b c=d] X-A:[1 2 ]]"},
	"an empty value":          {with("HTTP_X_EMPTY", ""), ""},
	"a value of four bytes":   {with("HTTP_X_LONG", strings.Repeat("x", 300)), ""},
	"a name of four bytes":    {with("HTTP_"+strings.Repeat("A", 200), "x"), ""},
	"no name behind HTTP_":    {with("HTTP_", "x"), "header map[]\n"},
	"a proxy of the client's": {with("HTTP_PROXY", "x"), ""},
	"pragma":                  {with("HTTP_PRAGMA", "no-cache"), "header map[Cache-Control:[no-cache] Pragma:[no-cache]]"},
	"many values":             {with(fcgiFields(20)...), ""},
	"expectation":             {with("HTTP_EXPECT", "100-continue"), ""},
	"coding of the client's":  {with("HTTP_TRANSFER_ENCODING", "chunked"), "header map[]\n"},
	"CONTENT_TYPE":            {with("CONTENT_TYPE", "a/b"), ""},
	"CONTENT_TYPE, empty":     {with("CONTENT_TYPE", ""), ""},
	"both types":              {with("CONTENT_TYPE", "a/b", "HTTP_CONTENT_TYPE", "c/d"), "header map[Content-Type:[a/b]]"},
	"both types, other order": {with("HTTP_X", "1", "HTTP_CONTENT_TYPE", "c/d", "HTTP_Y", "2",
		"CONTENT_TYPE", "a/b"), "header map[Content-Type:[a/b] X:[1] Y:[2]]"},
	"HTTP_CONTENT_TYPE":   {with("CONTENT_TYPE", "", "HTTP_CONTENT_TYPE", "c/d"), ""},
	"HTTP_CONTENT_LENGTH": {with("HTTP_CONTENT_LENGTH", "5"), ""},
	"a record for each byte": {begins(1, true) + inRecords(paramsStream, 1, 1, nameValues(likeNginx...)) +
		rec(stdinStream, 1, ""), ""},
	"more than a record holds": {with("HTTP_X", strings.Repeat("x", 70000)), ""},

	"no method": {listed("SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_URI", "/"),
		"400 Bad Request: REQUEST_METHOD missing or malformed"},
	"malformed method": {fcgiRequest{method: "GE T"}.String(), "400 Bad Request: REQUEST_METHOD missing or malformed"},
	"no protocol": {listed("REQUEST_METHOD", "GET", "REQUEST_URI", "/"),
		"400 Bad Request: SERVER_PROTOCOL missing or malformed"},
	"malformed protocol":          {with("SERVER_PROTOCOL", "HTTP/1"), "400 Bad Request: SERVER_PROTOCOL missing or malformed"},
	"malformed length":            {with("CONTENT_LENGTH", "+5"), "400 Bad Request: malformed CONTENT_LENGTH"},
	"negative length":             {with("CONTENT_LENGTH", "-1"), "400 Bad Request: malformed CONTENT_LENGTH"},
	"length out of range":         {with("CONTENT_LENGTH", "9223372036854775808"), "400 Bad Request: malformed CONTENT_LENGTH"},
	"malformed host":              {with("HTTP_HOST", "a b"), "400 Bad Request: malformed HTTP_HOST"},
	"malformed name":              {with("HTTP_X Y", "z"), "400 Bad Request: malformed HTTP_ variable"},
	"line end in a name":          {with("HTTP_X\r\nY", "z"), "400 Bad Request: malformed HTTP_ variable"},
	"line end in a value":         {with("HTTP_X", "y\r\nZ: a"), "400 Bad Request: malformed HTTP_ variable"},
	"line end in the type":        {with("CONTENT_TYPE", "a/b\r\nZ: a"), "400 Bad Request: malformed CONTENT_TYPE"},
	"NUL in a known field":        {with("HTTP_COOKIE", "\x00"), "400 Bad Request: malformed HTTP_ variable"},
	"malformed target":            {fcgiRequest{uri: "/%zz"}.String(), "400 Bad Request: malformed request target"},
	"target of no kind":           {fcgiRequest{uri: "x"}.String(), "400 Bad Request: malformed request target"},
	"space in the target's query": {fcgiRequest{uri: "/?a b"}.String(), "400 Bad Request: malformed request target"},
	"line end in the query":       {fcgiRequest{uri: "/?a\r\nb"}.String(), "400 Bad Request: malformed request target"},
	"a list that lies": {begins(1, true) + rec(paramsStream, 1, "\x01\x7fAb") + rec(paramsStream, 1, "") +
		rec(stdinStream, 1, ""), "400 Bad Request: malformed parameters"},
	"an empty list": {begins(1, true) + rec(paramsStream, 1, "") + rec(stdinStream, 1, ""),
		"400 Bad Request: REQUEST_METHOD missing"},
	"too many fields": {with(fcgiFields(1001)...), "400 Bad Request: too many parameters"},

	"body/one record":   {aPOST("hello"), bodyIs(`5 false "hello" <nil>`)},
	"body/byte by byte": {sized(9) + inRecords(stdinStream, 1, 1, "123456789"), bodyIs(`9 false "123456789" <nil>`)},
	"body/no length":    {fcgiRequest{method: "POST", body: "hello"}.String(), bodyIs(`-1 false "hello" <nil>`)},
	"body/empty length": {fcgiRequest{method: "POST", body: "hello", params: []string{"CONTENT_LENGTH", ""}}.String(),
		bodyIs(`-1 false "hello" <nil>`)},
	"body/no body":         {fcgiRequest{method: "POST"}.String(), bodyIs(`0 true "" <nil>`)},
	"body/no body, length": {fcgiRequest{method: "POST", length: true}.String(), bodyIs(`0 true "" <nil>`)},
	"body/of a GET":        {fcgiRequest{body: "hello", length: true}.String(), bodyIs(`5 false "hello" <nil>`)},
	"body/more than a record": {aPOST(strings.Repeat("x", largestContent+1)),
		bodyIs(fmt.Sprintf("%d false %q <nil>", largestContent+1,
			shorten(bytes.Repeat([]byte("x"), largestContent+1))))},
	"body/others' records": {sized(4) + rec(stdinStream, 1, "12") + rec(stdinStream, 2, "xx") +
		rec(stdinStream, 2, "") + rec(abortRequest, 2, "") + inRecords(stdinStream, 1, 9, "34"),
		bodyIs(`4 false "1234" <nil>`)},
	"body/shorter":             {sized(5) + inRecords(stdinStream, 1, 9, "1234"), bodyIs(`5 false "1234" unexpected EOF`)},
	"body/longer":              {sized(5) + inRecords(stdinStream, 1, 9, "123456"), bodyIs(`5 false "12345" <nil>`)},
	"body/longer, by a record": {sized(5) + inRecords(stdinStream, 1, 5, "1234567890"), bodyIs(`5 false "12345" <nil>`)},
	"body/longer than nothing": {sized(0) + inRecords(stdinStream, 1, 5, "1"), bodyIs(`0 true "" <nil>`)},
	"body/begun again": {sized(4) + rec(stdinStream, 1, "12") + begins(1, true),
		bodyIs(`4 false "12" fcgi: repeated BEGIN_REQUEST for an active request`)},
	"body/no record": {sized(4) + rec(stdinStream, 1, "12") + "HTTP/1.1",
		bodyIs(`4 false "12" fcgi: unsupported FastCGI version`)},
}

// bodyIs returns the lines of fcgiDump about a body: its length, whether it is http.NoBody, what can
// be read of it, and the error.
func bodyIs(want string) string {
	words := strings.SplitN(want, " ", 3)
	return fmt.Sprintf("length %s coding [] nobody %s\nbody %s", words[0], words[1], words[2])
}

// located returns a GET without REQUEST_URI.
func located(pairs ...string) string {
	return listed(append([]string{"REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "HTTP/1.1"}, pairs...)...)
}

func fcgiFields(n int) (pairs []string) {
	for i := range n {
		pairs = append(pairs, fmt.Sprint("HTTP_X_", i), fmt.Sprint(i))
	}
	return pairs
}

// Parameters become the Request, and the content of STDIN, in any records, its body. Malformed
// parameters get an error response. If the body does not match CONTENT_LENGTH, Read returns an error.
// Both end the connection.
func TestFCGIParamsBecomeRequest(t *testing.T) {
	everyFCGIMode(t, handle(fcgiDump), func(s *fcgiSite) {
		for name, test := range fcgiRequests {
			s.Run(name, func(t *testing.T) {
				p := newFCGIPeer(t, s.in(t).connect())
				defer p.Close()
				a := p.roundTrip(test.request)
				testkit.Contains(t, a.body, test.want)
				refused := strings.HasPrefix(test.want, "400 ")
				if refused != (a.code == 400) || refused && a.header.Get("Content-Type") == "" {
					t.Errorf("status %d, %v", a.code, a.header)
				}
				if refused || strings.Contains(test.want, "\nbody ") && !strings.Contains(test.want, "<nil>") {
					testkit.FailsWith(p.tryReadResponse())(t, io.EOF, "the connection")
				} else {
					testkit.Contains(t, p.roundTrip(aGET("/next")).body, `GET "/next"`)
				}
			})
		}
	})
}

// fcgiCorpus returns every stream of the tests, except the large ones.
func fcgiCorpus() map[string]string {
	all := make(map[string]string)
	add := func(name, text string) {
		if len(text) < 5000 {
			all[name] = text
		}
	}
	for name, r := range fcgiRequests {
		add("request/"+name, r.request+aGET("/next"))
	}
	for name, pieces := range fcgiStreams {
		add("stream/"+name, strings.Join(pieces, ""))
	}
	for name, variant := range abortions {
		add("abortion/"+name, aPOST("hello")+variant.with+variant.before+strings.Join(variant.after, "")+aGET("/next"))
	}
	for i, h := range fcgiHostileStreams() {
		add(fmt.Sprint("hostile/", h.name, i), h.begins+h.text)
	}
	put := fcgiRequest{method: "PUT", body: aGET("/smuggled"), length: true}
	add("unread", put.String()+aGET("/next"))
	add("unread, GET_VALUES", put.head()+rec(stdinStream, 1, "abc")+question+begins(2, true)+
		inRecords(stdinStream, 1, 5, put.body[3:])+aGET("/next"))
	add("unread, padded", put.head()+padded(stdinStream, 1, put.body, 200)+padded(stdinStream, 1, "", 200)+
		aGET("/next"))
	return all
}

// fcgiProbe reads a body, or leaves it, and responds with all that it can observe.
func fcgiProbe(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		io.ReadFull(r.Body, make([]byte, 3))
	} else {
		fcgiDump(w, r)
	}
	if r.Method != http.MethodGet {
		_ = r.Context().Err() // starts the departure watch
	}
}

// cutAt cuts text into pieces, at random but reproducibly for a seed.
func cutAt(text string, seed uint64) (pieces []string) {
	rnd := rand.New(rand.NewPCG(seed, uint64(len(text))))
	longest := 1 + rnd.IntN(1+len(text)/2)
	for len(text) > 0 {
		n := min(len(text), 1+rnd.IntN(longest))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// FuzzFastCGI sends any bytes whole and in pieces. The responses are the same, and consist only of
// whole records.
func FuzzFastCGI(f *testing.F) {
	seed := uint64(0)
	for _, text := range fcgiCorpus() {
		seed++
		f.Add(text, seed)
	}
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		if len(in) > 5000 {
			return
		}
		describe := func(pieces ...string) string {
			all, closed := fcgiExchange(t, fcgiServer, fcgiProbe, pieces, 0)
			p := newFCGIPeer(t, nil)
			p.in.Reset(bytes.NewReader(all))
			for err := error(nil); err == nil; {
				if _, _, _, err = p.record(); err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("%v in %q", err, all)
				}
			}
			return describeFCGI(t, all, closed, nil)
		}
		pieces := cutAt(in, seed)
		testkit.Equal(t, describe(pieces...), describe(in), fmt.Sprintf("%q", pieces))
	})
}

// budgetSmallFCGI covers the exchange, the list's string, RemoteAddr, and the map's two parts. A
// browser's head has a longer string than over HTTP. A response's field costs the same.
var (
	budgetSmallFCGI   = spending{5, 1760}
	budgetBrowserFCGI = spending{8, 3080}
)

// browserByFCGI returns what nginx makes of BrowserGET.
func browserByFCGI() string {
	list := slices.Clone(likeNginx[:len(likeNginx)-4]) // without the two fields of a small request
	lines := strings.Split(strings.TrimSpace(testkit.BrowserGET()), "\r\n")
	for _, line := range lines[2:] {
		name, value, _ := strings.Cut(line, ": ")
		list = append(list, "HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
	return listed(list...)
}

// hostileFCGI returns streams that are small for their potential cost.
func hostileFCGI() map[string]string {
	all := fcgiCorpus()
	for i, h := range fcgiHostileStreams() { // also the large ones
		all[fmt.Sprint("hostile/", h.name, i)] = h.begins + h.text
	}
	list := nameValues(fcgiRequest{}.list()...)
	for name, text := range map[string]string{
		"list in records of two": begins(1, true) + inRecords(paramsStream, 1, 99, list) +
			strings.Repeat(rec(paramsStream, 1, "\x00\x00"), 100_000) + rec(paramsStream, 1, "") +
			rec(stdinStream, 1, ""),
		"too many fields": listed(append(fcgiRequest{}.list(), fcgiFields(20_000)...)...),
		"one field":       listed(append(fcgiRequest{}.list(), slices.Repeat([]string{"HTTP_A", ""}, 990)...)...),
		"a query":         fcgiRequest{uri: "/?" + strings.Repeat("a&", 30_000)}.String(),
		"escapes":         fcgiRequest{uri: "/" + strings.Repeat("%41", 20_000)}.String(),
		"unescaped":       located("SCRIPT_NAME", "/"+strings.Repeat(" ", 60_000)),
		"pipelined":       strings.Repeat(aGET("/"), 2000),
		"pipelined posts": strings.Repeat(aPOST("x"), 2000),
		"aborted":         strings.Repeat(begins(1, true)+abort, 10_000),
		"other roles": strings.Repeat(rec(beginRequest, 1, "\x00\x03\x01\x00\x00\x00\x00\x00"),
			10_000),
		"a long question": strings.Repeat(rec(getValues, 0,
			strings.Repeat(nameValues("FCGI_MPXS_CONNS", ""), 240)), 20),
		"strangers' padding":    strings.Repeat(padded(stdinStream, 9, "", 255), 1000),
		"body of one byte each": fcgiRequest{}.head() + inRecords(stdinStream, 1, 1, strings.Repeat("x", 20_000)),
		"a large body":          aPOST(strings.Repeat("x", 1<<20)),
		"a length that is large": fcgiRequest{method: "POST",
			params: []string{"CONTENT_LENGTH", "9223372036854775807"}, body: strings.Repeat("x", 1<<20)}.String(),
		"strangers behind a request": aPOST("x") + strings.Repeat(rec(stdinStream, 9, ""), 500) +
			rec(getValues, 0, strings.Repeat("\x00\x00", 2000)),
		"records cut off":              aPOST("x") + rec(getValues, 0, strings.Repeat("\x00\x00", 2000))[:4000],
		"bytes behind a malformed one": aPOST("x") + "\x02" + strings.Repeat("x", 3000),
		"padding behind each": strings.Repeat(padded(beginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00\x00",
			255)+padded(abortRequest, 1, "", 255), 1000),
		"nothing": "",
	} {
		all[name] = text
	}
	return all
}

// bodyReaders are handlers that use a request in potentially expensive variants.
var bodyReaders = map[string]http.HandlerFunc{
	"read":   func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, struct{ io.Reader }{r.Body}) },
	"unread": func(http.ResponseWriter, *http.Request) {},
	"watched": func(_ http.ResponseWriter, r *http.Request) {
		_ = r.Context().Err()
		io.Copy(io.Discard, struct{ io.Reader }{r.Body})
		_ = r.Context().Err()
	},
	"parameters": func(_ http.ResponseWriter, r *http.Request) {
		for range fastcgi.Params(r.Context()) {
			continue
		}
	},
}
