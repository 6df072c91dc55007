package fcgi_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// countingListener counts accepted connections, which use the goroutine path.
type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// A handler may write while it reads, as with net/http/fcgi. No part of the body is lost, and the
// connection is kept.
func TestHandlersWriteWhileTheyRead(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"shards":    func(l net.Listener) net.Listener { return l },
		"goroutine": func(l net.Listener) net.Listener { return &countingListener{Listener: l} },
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := wrap(inner)
			var served atomic.Int64
			s := &fcgi.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				_, _ = io.Copy(w, r.Body)
			})}
			go func() { _ = s.Serve(l) }()
			t.Cleanup(func() { _ = s.Close() })
			transport := &fcgi.Transport{Addr: inner.Addr().String(), MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1}
			t.Cleanup(transport.CloseIdleConnections)
			client := http.Client{Transport: transport}
			for _, size := range []int{1, 3000, 40_000, 200_000, 2_000_000} {
				sent := bytes.Repeat([]byte("0123456789"), size/10+1)
				resp, err := client.Post("http://host.example/", "text/plain", bytes.NewReader(sent))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, sent) {
					t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
				}
			}
			if c, ok := l.(*countingListener); ok && c.accepted.Load() != 1 {
				t.Errorf("%d connections for five requests, one after another", c.accepted.Load())
			}
			if served.Load() != 5 {
				t.Errorf("%d requests", served.Load())
			}
		})
	}
}
