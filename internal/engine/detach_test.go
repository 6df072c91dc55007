package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// A response that outlasts its handler is as that of a handler that takes as long: to a client that
// reads late, at its end, with a panic, and to a client that leaves. Only sockets of a shard
// without TLS can do without the handler.
func TestResponsesOutlastHandlers(t *testing.T) {
	piece := bytes.Repeat([]byte("0123456789abcde\n"), 900)
	const pieces = 400 // more than sockets hold
	t.Parallel()
	var detached atomic.Int32
	left := make(chan error, 1)
	handler := func(w http.ResponseWriter, r *http.Request) {
		flush := func() { _ = http.NewResponseController(w).Flush() }
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(piece)
		flush()
		var trySend func([]byte) connection.Delivery
		stream := func() (why any) {
			if r.URL.Path == "/left" {
				<-r.Context().Done()
				left <- r.Context().Err()
				return http.ErrAbortHandler
			}
			for range pieces - 1 {
				how := connection.Refused
				if trySend != nil {
					how = trySend(piece)
				}
				if how == connection.Refused {
					if _, err := w.Write(piece); err != nil {
						return http.ErrAbortHandler
					}
				}
				if how != connection.Delivered {
					flush()
				}
			}
			if r.URL.Path == "/aborted" {
				return http.ErrAbortHandler
			}
			return nil
		}
		if d, ok := w.(connection.TrySender); ok {
			trySend = d.TrySender(func(end func(why any)) { go func() { end(stream()) }() })
		}
		if trySend != nil {
			detached.Add(1)
		} else if why := stream(); why != nil {
			panic(why)
		}
	}
	everyMode(t, handle(handler), func(s *site) {
		detached.Store(0)
		for range 2 {
			testkit.Equal(t, len(s.get("/")), pieces*len(piece))
		}
		n, _ := s.server.Connections()
		testkit.Equal(t, n, 1, "connections, of which the first one can be kept")
		resp := testkit.Value(s.client.Get(s.url + "/aborted"))(t)
		if b, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > pieces*len(piece) {
			t.Errorf("aborted: %d bytes, %v", len(b), err)
		}
		ctx, leave := context.WithCancel(t.Context())
		resp = testkit.Value(s.client.Do(testkit.Value(http.NewRequestWithContext(ctx, "GET", s.url+"/left", nil))(t)))(t)
		leave()
		resp.Body.Close()
		testkit.Equal(t, <-left, context.Canceled, "after the client has left")
		want := int32(0)
		if isSocket := s.mode == "tcp" || s.mode == "unix"; isSocket && runtime.GOOS == "linux" {
			want = 4
		}
		testkit.Equal(t, detached.Load(), want, "detached responses")
	})
}

// HTTP/2's preface counts at the beginning of a connection only. After a request of HTTP/1 it gets a 505,
// also if the response to that request was handed off or has outlasted its handler.
func TestPrefaceFollowsNoRequest(t *testing.T) {
	for _, dispatch := range []engine.Dispatch{engine.OnLoop, engine.OwnGoroutine} {
		someServers(t, handle(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begun, ")
			_ = http.NewResponseController(w).Flush()
			if d, ok := w.(connection.TrySender); r.URL.Path == "/detached" && ok && d.TrySender(func(end func(why any)) {
				go end(nil)
			}) != nil {
				return
			}
			_, _ = io.WriteString(w, "ended")
		}), func(s *engine.Server, set *http.Server) {
			s.Dispatch, set.Protocols = dispatch, new(http.Protocols)
			set.Protocols.SetHTTP1(true)
			set.Protocols.SetUnencryptedHTTP2(true)
		}, func(s *site) {
			for _, path := range []string{"/", "/detached"} {
				got := s.exchangeAborted(getOf(path) + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
				testkit.Contains(s, got, "\r\n0\r\n\r\nHTTP/1.1 505 ", path)
			}
		}, "tcp")
	}
}
