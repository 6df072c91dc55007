package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, b, err := c.Read(context.Background())
		if err != nil || c.Write(context.Background(), kind, b) != nil {
			return
		}
	}
}

// sendMessages sends messages and expects them back.
func (s *site) sendMessages(address string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, _, err := websocket.Dial(ctx, address,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: s.client.Transport}})
	if err != nil {
		s.Fatal(err)
	}
	defer c.CloseNow()
	for i := range 20 {
		want := strings.Repeat(fmt.Sprint(i), 1+i*500)
		if err := c.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
			s.Fatal(err)
		}
		if _, got, err := c.Read(ctx); string(got) != want || err != nil {
			s.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		s.Error(err)
	}
}

// A reverse proxy of the standard library streams, upgrades, and aborts when its backend aborts.
func TestReverseProxyOfStandardLibraryWorks(t *testing.T) {
	proceed := make(chan bool)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			echo(w, r)
		case "/stream":
			io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-proceed
			io.WriteString(w, "second\n")
		case "/abort":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "some")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer backend.Close()
	target, _ := url.Parse(backend.URL)
	bothPaths(t, func() *http.Server {
		return &http.Server{Handler: &httputil.ReverseProxy{FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	}, func(s *site) {
		s.sendMessages("http://host/echo")
		resp, err := s.client.Get("http://host/stream")
		if err != nil {
			s.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		if line, err := lines.ReadString('\n'); line != "first\n" {
			s.Errorf("%q %v", line, err)
		}
		proceed <- true
		if line, err := lines.ReadString('\n'); line != "second\n" {
			s.Errorf("%q %v", line, err)
		}
		resp.Body.Close()
		resp, err = s.client.Get("http://host/abort")
		if err != nil {
			s.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			s.Errorf("a response cut off by the backend: %q %v", b, err)
		}
	})
}

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
