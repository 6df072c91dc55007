package tare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return l
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	testkit.Must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
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

func TestListenAndServeReturnsListenError(t *testing.T) {
	l := listen(t)
	defer l.Close()
	if err := tare.ListenAndServe(l.Addr().String(), nil); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}
