package tare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWrapServesUntilShutdown(t *testing.T) {
	inner := &http.Server{}
	hooked := make(chan bool, 1)
	inner.RegisterOnShutdown(func() { hooked <- true })
	inner.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Context().Value(http.ServerContextKey) == inner)
	})
	s := tare.Wrap(inner)
	l := listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if got := fetch(t, "http://"+l.Addr().String()); got != "true" {
		t.Errorf("the server in the context is the wrapped one: %s", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	select {
	case <-hooked:
	case <-ctx.Done():
		t.Error("RegisterOnShutdown's function was not called")
	}
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("after Shutdown: %v", err)
	}
}

// A handler may wait for a function that is registered with RegisterOnShutdown.
func TestShutdownRunsRegisteredFunctionsWhileHandlersWait(t *testing.T) {
	stopping, entered := make(chan bool), make(chan bool)
	inner := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		close(entered)
		<-stopping
	})}
	inner.RegisterOnShutdown(func() { close(stopping) })
	s := tare.Wrap(inner)
	l := listen(t)
	go s.Serve(l)
	go http.Get("http://" + l.Addr().String())
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Shutdown returns the context's error unwrapped, so that == finds it.
func TestShutdownReturnsContextError(t *testing.T) {
	entered := make(chan bool)
	s := tare.Wrap(&http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})})
	defer s.Close()
	l := listen(t)
	go s.Serve(l)
	go http.Get("http://" + l.Addr().String())
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != context.Canceled { //nolint:errorlint // must not be wrapped
		t.Errorf("%#v", err)
	}
}

func TestCloseEndsRequests(t *testing.T) {
	entered := make(chan bool)
	s := tare.Wrap(&http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})})
	l := listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of a closed server", n)
	}
}

func TestDisabledKeepAlivesCloseConnections(t *testing.T) {
	s := tare.Wrap(&http.Server{Handler: http.NotFoundHandler()})
	s.SetKeepAlivesEnabled(false)
	l := listen(t)
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	b, err := io.ReadAll(c) // ends because the server closes the connection
	if err != nil || !strings.Contains(string(b), "Connection: close\r\n") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestListenAndServeReturnsListenError(t *testing.T) {
	l := listen(t)
	defer l.Close()
	if err := tare.ListenAndServe(l.Addr().String(), nil); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}

// The Server's Dispatch reaches the engine. If a poll loop gets no CPU time for a while, its
// handlers move to another goroutine. So on a busy machine the test tries again.
func TestDispatchReachesEngine(t *testing.T) {
	for _, dispatch := range []tare.Dispatch{tare.Predicted, tare.OnLoop, tare.OwnGoroutine} {
		want := fmt.Sprint(dispatch == tare.OnLoop && runtime.GOOS == "linux")
		got := ""
		for range 20 {
			if got = onLoop(t, dispatch); got == want {
				break
			}
		}
		if got != want {
			t.Errorf("Dispatch %v: on the loop %s, want %s", dispatch, got, want)
		}
	}
}

// onLoop reports whether the first request of a new server is handled on the poll loop. The
// predictor has no data about it yet.
func onLoop(t *testing.T, dispatch tare.Dispatch) string {
	s := tare.Wrap(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 16<<10)
		fmt.Fprint(w, strings.Contains(string(b[:runtime.Stack(b, false)]), ".serveAsLeader("))
	})})
	defer s.Close()
	s.Dispatch = dispatch
	l := listen(t)
	go s.Serve(l)
	return fetch(t, "http://"+l.Addr().String())
}
