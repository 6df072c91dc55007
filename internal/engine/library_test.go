package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// contextUses are ways for a handler to wait for the end of its context.
var contextUses = map[string]func(context.Context){
	"/done": func(ctx context.Context) { <-ctx.Done() },
	"/err": func(ctx context.Context) {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	},
	"/after": func(ctx context.Context) {
		done := make(chan bool)
		context.AfterFunc(ctx, func() { close(done) })
		<-done
	},
	"/derived": func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-ctx.Done()
	},
}

// The context is canceled when the client leaves, however the handler uses it, before or after it
// has read the body. The client may also leave before the handler uses the context.
func TestDepartureCancelsContextOnBothPaths(t *testing.T) {
	entered, proceed, ended := make(chan bool), make(chan bool), make(chan error, 1)
	settings := handle(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_ = r.Context().Err()
		}
		io.Copy(io.Discard, r.Body)
		entered <- true
		<-proceed
		contextUses[r.URL.Path](r.Context())
		ended <- r.Context().Err()
	})
	leave := func(t *testing.T, connect func() net.Conn, request string) {
		for _, early := range []bool{false, true} {
			c := connect()
			io.WriteString(c, request)
			<-entered
			if early {
				c.Close()
			}
			proceed <- true
			c.Close()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%.40q, early %v: %v", request, early, err)
			}
		}
	}
	for path := range contextUses {
		someModes(t, settings, func(s *site) {
			for _, request := range []string{get, post, chunked, strings.Replace(post, "POST", "PUT", 1)} {
				leave(s.T, s.connect, strings.Replace(request, "/ ", path+" ", 1))
			}
		}, "tcp", "net.Conn", "tls", "ServeTLS")
		everyFCGIMode(t, settings, func(s *fcgiSite) {
			for _, r := range []fcgiRequest{{uri: path}, {uri: path, once: true},
				{method: "PUT", uri: path, body: "hello", length: true}} {
				leave(s.T, s.connect, r.String())
			}
		})
	}
}
