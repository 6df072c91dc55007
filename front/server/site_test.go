package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// closingHandler is a handler that a server closes.
type closingHandler struct {
	http.Handler
	closed bool
}

// Close implements io.Closer.
func (h *closingHandler) Close() error {
	h.closed = true
	return nil
}

// A Config with a Handler serves all requests by it, with a log, and closes it at the end. An error
// of the function that makes it ends Run.
func TestConfigWithHandlerServesIt(t *testing.T) {
	dir := t.TempDir()
	socket, log := filepath.Join(dir, "socket"), filepath.Join(dir, "log")
	handler := &closingHandler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
	})}
	host := conf.Host{Listen: []conf.Listen{{Addr: "unix:" + socket}}}
	host.Defaults = &conf.Settings{Logs: []conf.Log{{Path: log}}}
	config := &server.Config{Name: "a handler", Front: conf.Config{Hosts: []conf.Host{host}}}
	config.Handler = func() (http.Handler, error) { return nil, errors.New("no handler") }
	options := server.Options{Stdout: io.Discard, Stderr: io.Discard, NoSignals: true}
	if err := server.Run(t.Context(), config, options); err == nil || err.Error() != "no handler" {
		t.Errorf("got %v", err)
	}

	config.Handler = func() (http.Handler, error) { return handler, nil }
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}, 1), make(chan error, 1)
	options.Ready = func() { ready <- struct{}{} }
	go func() { ended <- server.Run(ctx, config, options) }()
	<-ready
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	resp, err := client.Get("http://any/a//b")
	testkit.Must(t, err)
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "/a//b" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !handler.closed {
		t.Error("the handler was not closed")
	}
	line, err := os.ReadFile(log)
	if want := `^unix: - - \[[^]]*\] "GET /a//b HTTP/1.1" 200 5 "-" "Go-http-client/1.1"\n$`; !regexp.MustCompile(want).Match(line) || err != nil {
		t.Errorf("the log is %q, %v", line, err)
	}
}
