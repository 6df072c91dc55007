package engine_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

func fcgiSilences() []silence {
	const second = time.Second
	begin, list := begins(1, true), rec(paramsStream, 1, nameValues(fcgiRequest{}.list()...))
	return []silence{
		{"default: nothing sent", &http.Server{}, nil, 30 * second},
		{"default: part of a header", &http.Server{}, []string{begin[:1], begin[1:2], begin[2:3]}, 27 * second},
		{"default: no list", &http.Server{}, []string{begin}, 29 * second},
		{"default: part of the list", &http.Server{}, []string{begin, list[:20], list[20:40]}, 27 * second},
		{"default: no end of the list", &http.Server{}, []string{begin, list}, 28 * second},
		{"default: no body", &http.Server{}, []string{fcgiRequest{}.head()}, 29 * second},
		{"default: records of others", &http.Server{},
			[]string{rec(stdinStream, 7, "x"), rec(dataStream, 7, "x"), rec(stdinStream, 7, "")}, 27 * second},
		{"default: part of others' record", &http.Server{}, []string{padded(stdinStream, 7, "xxxxx", 99)[:20], "y"},
			28 * second},
		{"default: questions", &http.Server{}, []string{question, question, question}, 27 * second},
		{"default: aborted", &http.Server{}, []string{begin, abort, begin}, 27 * second},
		{"ReadHeaderTimeout", &http.Server{ReadHeaderTimeout: 5 * second}, []string{begin, list[:20], list[20:40]},
			2 * second},
		{"ReadTimeout bounds parameters", &http.Server{ReadTimeout: 5 * second}, []string{begin}, 4 * second},
		{"ReadHeaderTimeout wins", &http.Server{ReadTimeout: 5 * second, ReadHeaderTimeout: 7 * second},
			[]string{begin}, 6 * second},
		{"second request", &http.Server{ReadHeaderTimeout: 5 * second}, []string{aGET("/"), "", begin, list[:20]},
			3 * second},
		{"IdleTimeout", &http.Server{IdleTimeout: 5 * second}, []string{aGET("/")}, 4 * second},
		{"IdleTimeout starts anew", &http.Server{IdleTimeout: 5 * second},
			[]string{aGET("/"), "", aGET("/"), "", aGET("/")}, 4 * second},
		{"ReadTimeout bounds idleness", &http.Server{ReadTimeout: 9 * second}, []string{aGET("/")}, 8 * second},
		{"ReadTimeout bounds bodies", &http.Server{ReadTimeout: 5 * second, IdleTimeout: 60 * second},
			[]string{sized(9) + rec(stdinStream, 1, "ab"), rec(stdinStream, 1, "c")}, 3 * second},
		{"no bound on idleness", &http.Server{}, []string{aGET("/")}, -1},
		{"no bound on bodies", &http.Server{}, []string{sized(9) + rec(stdinStream, 1, "ab")}, -1},
	}
}

// WriteTimeout also ends a connection whose peer sends GET_VALUES and does not read the replies,
// even if they are sent one by one.
func TestFCGIWriteTimeoutAppliesToReplies(t *testing.T) {
	settings := &http.Server{WriteTimeout: 5 * time.Second, ReadHeaderTimeout: time.Hour,
		Handler: http.HandlerFunc(dump)}
	inFCGIBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		start := time.Now()
		for text := strings.Repeat(question, 1000); ; {
			if _, err := io.WriteString(c, text); err != nil {
				break
			}
		}
		if elapsed := time.Since(start); elapsed < 5*time.Second || elapsed > 6*time.Second {
			t.Errorf("closed after %v", elapsed)
		}
	})
}
