package engine_test

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/engine/fastcgi"
)

// budgetSmallFCGI covers the exchange, the list's string, RemoteAddr, and the map's two parts. A
// browser's head has a longer string than over HTTP. A response's field costs the same.
var (
	budgetSmallFCGI   = spending{5, 1760}
	budgetBrowserFCGI = spending{8, 3080}
)

// browserByFCGI returns what nginx makes of browserGET.
func browserByFCGI() string {
	list := slices.Clone(likeNginx[:len(likeNginx)-4]) // without the two fields of a small request
	lines := strings.Split(strings.TrimSpace(browserGET), "\r\n")
	for _, line := range lines[2:] {
		name, value, _ := strings.Cut(line, ": ")
		list = append(list, "HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
	return listed(list...)
}

// hostileFCGI returns streams that are small for their potential cost.
func hostileFCGI() map[string]string {
	all := fcgiCorpus()
	list := nameValues(fcgiRequest{}.list()...)
	for name, text := range map[string]string{
		"list in records of a byte": begins(1, true) + strings.Repeat(rec(paramsStream, 1, "\x00"), 110_000) +
			rec(paramsStream, 1, "") + rec(stdinStream, 1, ""),
		"list in records of two": begins(1, true) + inRecords(paramsStream, 1, 99, list) +
			strings.Repeat(rec(paramsStream, 1, "\x00\x00"), 100_000) + rec(paramsStream, 1, "") +
			rec(stdinStream, 1, ""),
		"empty parameters": listed(append(fcgiRequest{}.list(), make([]string, 500_000)...)...),
		"fields":           listed(append(fcgiRequest{}.list(), fcgiFields(1000)...)...),
		"too many fields":  listed(append(fcgiRequest{}.list(), fcgiFields(20_000)...)...),
		"one field":        listed(append(fcgiRequest{}.list(), repeated(990, "HTTP_A", "")...)...),
		"types":            listed(append(fcgiRequest{}.list(), repeated(50_000, "CONTENT_TYPE", "a")...)...),
		"a large list":     fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", 900<<10)}}.String(),
		"too large a list": fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", 2<<20)}}.String(),
		"a query":          fcgiRequest{uri: "/?" + strings.Repeat("a&", 30_000)}.String(),
		"escapes":          fcgiRequest{uri: "/" + strings.Repeat("%41", 20_000)}.String(),
		"unescaped":        located("SCRIPT_NAME", "/"+strings.Repeat(" ", 60_000)),
		"pipelined":        strings.Repeat(aGET("/"), 2000),
		"pipelined posts":  strings.Repeat(aPOST("x"), 2000),
		"aborted":          strings.Repeat(begins(1, true)+abort, 10_000),
		"refused":          begins(1, true) + strings.Repeat(begins(2, true), 10_000),
		"other roles": strings.Repeat(rec(beginRequest, 1, "\x00\x03\x01\x00\x00\x00\x00\x00"),
			10_000),
		"questions":       strings.Repeat(question, 10_000),
		"empty questions": strings.Repeat(rec(getValues, 0, ""), 20_000),
		"a long question": strings.Repeat(rec(getValues, 0,
			strings.Repeat(nameValues("FCGI_MPXS_CONNS", ""), 240)), 20),
		"unknown types":         strings.Repeat(rec(99, 0, ""), 20_000),
		"strangers":             strings.Repeat(rec(stdinStream, 9, ""), 20_000),
		"strangers' padding":    strings.Repeat(padded(stdinStream, 9, "", 255), 1000),
		"body of one byte each": fcgiRequest{}.head() + inRecords(stdinStream, 1, 1, strings.Repeat("x", 20_000)),
		"strangers in a body": sized(1) + rec(stdinStream, 1, "x") +
			strings.Repeat(rec(stdinStream, 9, ""), 20_000) + rec(stdinStream, 1, ""),
		"questions in a body": sized(1) + rec(stdinStream, 1, "x") + strings.Repeat(question, 20_000) +
			rec(stdinStream, 1, ""),
		"a large body": aPOST(strings.Repeat("x", 1<<20)),
		"a length that is large": fcgiRequest{method: "POST",
			params: []string{"CONTENT_LENGTH", "9223372036854775807"}, body: strings.Repeat("x", 1<<20)}.String(),
		"strangers behind a request": aPOST("x") + strings.Repeat(rec(stdinStream, 9, ""), 500) +
			rec(getValues, 0, strings.Repeat("\x00\x00", 2000)),
		"records cut off":              aPOST("x") + rec(getValues, 0, strings.Repeat("\x00\x00", 2000))[:4000],
		"bytes behind a malformed one": aPOST("x") + "\x02" + strings.Repeat("x", 3000),
		"padding behind each": strings.Repeat(padded(beginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00\x00",
			255)+padded(abortRequest, 1, "", 255), 1000),
		"nothing": "",
		"a list that lies, a large one": begins(1, true) +
			rec(paramsStream, 1, "\xff\xff\xff\xff\xff\xff\xff\xff"+strings.Repeat("x", 60_000)) +
			rec(paramsStream, 1, "") + rec(stdinStream, 1, ""),
	} {
		all[name] = text
	}
	return all
}

func repeated(n int, pair ...string) (pairs []string) {
	for range n {
		pairs = append(pairs, pair...)
	}
	return pairs
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
