package engine_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// overSockets is transcript over a listener of the given mode, in real time. The pieces arrive in
// any way, then the client closes its sending side, and everything that comes back is described.
func overSockets(t *testing.T, mode string, newServer func(*http.Server) server, h http.Handler,
	pieces []string) string {
	l, dial := modes[mode](t)
	var logged testkit.Log
	s := newServer(&http.Server{Handler: h, ErrorLog: log.New(&logged, "", 0)})
	served := goServe(s, l)
	defer func() { s.Close(); <-served }()
	c, err := dial()
	testkit.Must(t, err)
	defer c.Close()
	if c, ok := c.(*tls.Conn); ok { // CloseWrite fails before the handshake
		testkit.Must(t, c.Handshake())
	}
	sent := make(chan bool)
	go func() {
		defer close(sent)
		for _, p := range pieces {
			if p != closeWrite {
				io.WriteString(c, p)
				time.Sleep(time.Millisecond)
			}
		}
		c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	response, err := io.ReadAll(c)
	<-sent
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return "the server says nothing and does not close"
	}
	text := describe(response, true, strings.Contains(strings.Join(pieces, ""), "HEAD ")) + describeLog(logged.String())
	// dump shows addresses, and whether it ran before the client closed its side
	return regexp.MustCompile(`127\.0\.0\.1:\d+|context (<nil>|context `+
		`canceled)|length=[3-9]\d\d\b|Content-Length: \["[3-9]\d\d"\]`).ReplaceAllString(text, "...")
}

// What clients and handlers observe does not depend on the path, so that other tests of the
// goroutine path also hold for shards.
func TestBothPathsGiveSameResponses(t *testing.T) {
	check := func(t *testing.T, h http.Handler, pieces []string, overTLS bool) {
		t.Parallel()
		portable := overSockets(t, "net.Conn", makers["tare"], h, pieces)
		shards := overSockets(t, "tcp", makers["tare"], h, pieces)
		if portable != shards {
			t.Errorf("requests %q\n--- portable\n%s--- shards\n%s", pieces, portable, shards)
		}
		if !overTLS {
			return
		}
		portable = overSockets(t, "tls", makers["tare"], h, pieces)
		shards = overSockets(t, "ServeTLS", makers["tare"], h, pieces)
		if portable != shards {
			t.Errorf("requests %q over TLS\n--- portable\n%s--- shards\n%s", pieces, portable, shards)
		}
	}
	for name, pieces := range requests {
		t.Run(name, func(t *testing.T) { check(t, http.HandlerFunc(dump), pieces, true) })
	}
	for name, h := range handlers {
		for kind, pieces := range map[string][]string{
			"get": {get + get}, "1.0": {getOld}, "1.0keep": {getKeep, getKeep}, "head": {head, head},
			"post": {post, get},
		} {
			if name == "timeout" || strings.Contains(name, "hijack") && len(pieces) > 1 {
				continue // their responses depend on the client's timing
			}
			t.Run(name+"/"+kind, func(t *testing.T) { check(t, h, pieces, kind == "post") })
		}
	}
}

// onShards runs a test over the kinds of connection that are served on shards.
func onShards(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	for _, mode := range []string{"tcp", "ServeTLS"} {
		t.Run(mode, func(t *testing.T) { test(t, mode) })
	}
}

// siteOver starts a server with one handler for a kind of connection.
func siteOver(t *testing.T, mode string, settings *http.Server) (s *engine.Server, dial func() net.Conn) {
	t.Helper()
	site := siteOf(t, "tare", mode, settings)
	return site.server, site.connect
}

// readResponses reads until n responses have ended.
func readResponses(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	got, err := tryReadResponses(c, n)
	testkit.Must(t, err)
	return got
}

// tryReadResponses is readResponses for connections that may get no response.
func tryReadResponses(c net.Conn, n int) (string, error) {
	var got []byte
	b := make([]byte, 64<<10)
	for bytes.Count(got, []byte("HTTP/1.1 ")) < n || !bytes.HasSuffix(got, []byte(".")) {
		m, err := c.Read(b)
		if err != nil {
			return "", fmt.Errorf("after %q: %w", got, err)
		}
		got = append(got, b[:m]...)
	}
	return string(got), nil
}

// A handler that blocks on a loop holds up other connections of the loop only for a moment.
func TestBlockedHandlerBlocksNoOtherConnection(t *testing.T) {
	onShards(t, blockedHandlerBlocksNoOtherConnection)
}

func blockedHandlerBlocksNoOtherConnection(t *testing.T, mode string) {
	release := make(chan bool)
	var blocking atomic.Bool
	_, dial := siteOver(t, mode, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if blocking.Load() && r.URL.RawQuery == "block" {
			<-release
		}
		io.WriteString(w, "done.")
	})})
	quick := dial()
	for range 200 { // so that the slot is trusted
		io.WriteString(quick, get)
		readResponses(t, quick, 1)
	}
	blocking.Store(true)
	var blocked []net.Conn
	for range 20 {
		c := dial()
		io.WriteString(c, "GET /?block HTTP/1.1\r\n"+host+"\r\n")
		blocked = append(blocked, c)
	}
	for range 50 {
		io.WriteString(quick, get)
		readResponses(t, quick, 1)
	}
	close(release)
	for _, c := range blocked {
		readResponses(t, c, 1)
	}
}

// Connections that wait too long are closed: silent ones, slow heads, and idle ones.
func TestWaitingConnectionsTimeOut(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	onShards(t, waitingConnectionsTimeOut)
}

func waitingConnectionsTimeOut(t *testing.T, mode string) {
	const bound = time.Second
	_, dial := siteOver(t, mode, &http.Server{ReadHeaderTimeout: bound, IdleTimeout: 2 * bound,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "done.")
		})})
	for name, test := range map[string]struct {
		want      time.Duration
		responded bool // the server has responded once before
		then      func(net.Conn)
	}{
		"silent":      {bound, false, func(net.Conn) {}},
		"one byte":    {bound, false, func(c net.Conn) { io.WriteString(c, "G") }},
		"idle":        {2 * bound, true, func(net.Conn) {}},
		"second head": {bound, true, func(c net.Conn) { io.WriteString(c, "GET / H") }},
		"trickle": {bound, false, func(c net.Conn) {
			go func() {
				for _, b := range get {
					if _, err := c.Write([]byte{byte(b)}); err != nil {
						return
					}
					time.Sleep(bound / 15)
				}
			}()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial()
			start := time.Now() // the server starts to wait later
			if test.responded {
				io.WriteString(c, get)
				readResponses(t, c, 1)
			}
			test.then(c)
			n, err := c.Read(make([]byte, 1))
			if elapsed := time.Since(start); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) ||
				elapsed < test.want*9/10 {
				t.Errorf("read %d, %v after %v, want the end after %v", n, err, elapsed, test.want)
			}
		})
	}
}

// Panics, Goexit and threads locked by a handler end with its connection. Other connections of its
// loop continue.
func TestAbortedHandlerEndsOnlyItsConnection(t *testing.T) {
	onShards(t, abortedHandlerEndsOnlyItsConnection)
}

func abortedHandlerEndsOnlyItsConnection(t *testing.T, mode string) {
	_, dial := siteOver(t, mode, &http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.RawQuery {
			case "panic":
				panic("ouch")
			case "abort":
				panic(http.ErrAbortHandler)
			case "exit":
				runtime.Goexit()
			}
			io.WriteString(w, "done.")
		})})
	quick := dial()
	for _, how := range []string{"panic", "abort", "exit"} {
		for range 100 { // so that handlers run on the loop
			io.WriteString(quick, get)
			readResponses(t, quick, 1)
		}
		for range 5 {
			c := dial()
			fmt.Fprintf(c, "GET /?%s HTTP/1.1\r\nHost: a\r\n\r\n", how)
			if b, err := io.ReadAll(c); len(b) != 0 {
				t.Errorf("%s: read %q, %v", how, b, err)
			}
		}
		io.WriteString(quick, get)
		readResponses(t, quick, 1)
	}
}

// A client that pipelines may need the first response before it allows the handler of the second
// request to continue.
func TestPipelinedResponsesAreNotHeldBack(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	onShards(t, pipelinedResponsesAreNotHeldBack)
}

func pipelinedResponsesAreNotHeldBack(t *testing.T, mode string) {
	release := make(chan bool)
	_, dial := siteOver(t, mode, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "second" {
			<-release
		}
		io.WriteString(w, r.URL.RawQuery+".")
	})})
	for round := range 100 { // in debt at first, later on the loop
		c := dial()
		for range round {
			io.WriteString(c, "GET /?x HTTP/1.1\r\n"+host+"\r\n")
			readResponses(t, c, 1)
		}
		io.WriteString(c, "GET /?first HTTP/1.1\r\n"+host+"\r\nGET /?second HTTP/1.1\r\n"+host+"\r\nGET /?third "+
			"HTTP/1.1\r\n"+host+"\r\n")
		if got := readResponses(t, c, 1); !strings.Contains(got, "first.") {
			t.Fatalf("%q", got)
		}
		release <- true
		if got := readResponses(t, c, 2); !strings.Contains(got, "second.") || !strings.Contains(got, "third.") {
			t.Fatalf("%q", got)
		}
		c.Close()
	}
}

// A slow reader holds up only its own handler, and receives every byte.
