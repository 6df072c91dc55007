package engine_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// A handler that appends to one field's values changes no other field.
func TestAppendToFieldValuesChangesNoOtherField(t *testing.T) {
	var got string
	settings := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header["Accept"] = append(r.Header["Accept"], "more")
		r.Header["X-One"] = append(r.Header["X-One"], "more")
		got = fmt.Sprint(r.Header)
	})}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nAccept: a\r\nX-One: b\r\nX-Two: c\r\n\r\n")
		synctest.Wait()
		if want := "map[Accept:[a more] X-One:[b more] X-Two:[c]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// flaky is a listener whose Accept fails a few times, as in a process out of descriptors.
type flaky struct {
	net.Listener
	failures int
	fatal    bool
}

type failedAccept struct{ temporary bool }

func (failedAccept) Error() string     { return "no more descriptors" }
func (failedAccept) Timeout() bool     { return false }
func (e failedAccept) Temporary() bool { return e.temporary }

func (l *flaky) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, failedAccept{temporary: !l.fatal}
	}
	return l.Listener.Accept()
}

// Each of several calls of Shutdown returns when the last connection closes.
func TestAllCallsOfShutdownReturnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		release := make(chan bool)
		s := engine.New(&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })})
		served := goServe(s, nw.Listen())
		c, err := nw.Dial()
		testkit.Must(t, err)
		io.WriteString(c, get)
		synctest.Wait()
		ended := make(chan error)
		for range 2 {
			go func() { ended <- s.Shutdown(t.Context()) }()
		}
		synctest.Wait()
		start := time.Now()
		close(release)
		c.Close()
		for range 2 {
			if err := <-ended; err != nil || time.Since(start) > 0 {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		<-served
	})
}

func TestTemporaryAcceptErrorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		var logged testkit.Log
		s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(&logged, "", 0)})
		start := time.Now()
		served := goServe(s, &flaky{Listener: nw.Listen(), failures: 3})
		c, err := nw.Dial()
		testkit.Must(t, err)
		if elapsed := time.Since(start); elapsed != (5+10+20)*time.Millisecond {
			t.Errorf("accepted after %v", elapsed)
		}
		if n := strings.Count(logged.String(), "Accept error: no more descriptors; retrying in"); n != 3 {
			t.Errorf("logged %d failures: %s", n, logged.String())
		}
		c.Close()
		s.Close()
		<-served

		s = engine.New(&http.Server{})
		if err := s.Serve(&flaky{Listener: nw.Listen(), failures: 1, fatal: true}); !errors.Is(err, failedAccept{}) {
			t.Errorf("a failure for good: %v", err)
		}
	})
}

// alternating is a listener whose Accept fails and succeeds in turns. It has a connection for each
// time.
type alternating struct {
	net.Listener
	network *testkit.Network
	calls   int
}

func (l *alternating) Accept() (net.Conn, error) {
	if l.calls++; l.calls%2 == 1 {
		return nil, failedAccept{temporary: true}
	}
	go func() {
		if c, err := l.network.Dial(); err == nil {
			c.Close()
		}
	}()
	return l.Listener.Accept()
}

// Errors of Accept that repeat are logged with longer and longer delays as by net/http, and apart
// from that every 10 seconds, also if Accept succeeds in between.
func TestRepeatedAcceptErrorsAreLoggedRarely(t *testing.T) {
	for _, inTurns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var nw testkit.Network
			var logged testkit.Log
			s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(&logged, "", 0)})
			var l net.Listener = &flaky{Listener: nw.Listen(), failures: 1 << 30}
			if inTurns {
				l = &alternating{Listener: nw.Listen(), network: &nw}
			}
			served := goServe(s, l)
			time.Sleep(time.Minute)
			s.Close()
			<-served
			if n := strings.Count(logged.String(), "Accept error"); n < 6 || n > 9+6 {
				t.Errorf("in turns %v: %d lines in a minute", inTurns, n)
			}
		})
	}
}
