package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// honest is a client on one connection.
type honest struct {
	*testing.T
	*http2.ClientConn
	entered <-chan bool // receives a value when the handler of "/wait" begins
	ended   <-chan bool // receives a value when a handler that waits for its context returns
}

// http2Honest are clients that send many frames that floods consist of, for a purpose.
func http2Honest() map[string]func(*honest) {
	const many = 1000
	return map[string]func(*honest){
		"uploads slowly": func(c *honest) {
			body, out := io.Pipe()
			go func() {
				defer out.Close()
				for range 3 * many {
					_, _ = out.Write([]byte("x")) // each is a frame
				}
			}()
			c.want(c.request(c.Context(), "/upload", body), "3000")
		},
		"pings": func(c *honest) {
			for range many / 2 {
				if err := c.Ping(c.Context()); err != nil {
					c.Fatal(err)
				}
			}
		},
		"cancels responses": func(c *honest) {
			for range many {
				ctx, cancel := context.WithCancel(c.Context())
				response := c.request(ctx, "/flushed", nil)
				cancel()
				response.Body.Close()
				<-c.ended
			}
		},
		"cancels requests": func(c *honest) {
			for range many {
				c.cancel(1, nil)
			}
		},
		"cancels pages": func(c *honest) {
			const subresources = 100
			for range many / subresources {
				c.cancel(subresources, nil)
			}
		},
		"resets uploads": func(c *honest) {
			for range many / 2 {
				c.cancel(1, make([]byte, 20<<10))
			}
		},
		"uploads what is not read": func(c *honest) {
			for range many / 4 {
				c.want(c.request(c.Context(), "/refused", strings.NewReader(strings.Repeat("x", 100<<10))), "no")
			}
		},
		"reads byte by byte": func(c *honest) {
			response := c.request(c.Context(), "/long", nil)
			defer response.Body.Close()
			for b := make([]byte, 1); ; {
				if _, err := response.Body.Read(b); err == io.EOF {
					return
				} else if err != nil {
					c.Fatal(err)
				}
			}
		},
	}
}

// honestHandler serves honest clients.
func honestHandler(entered, ended chan<- bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/upload":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		case "/flushed":
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			ended <- true
		case "/wait":
			entered <- true
			<-r.Context().Done()
			ended <- true
		case "/refused":
			io.WriteString(w, "no")
		case "/long":
			w.Write(make([]byte, 1<<20))
		}
	}
}

// request sends a request and returns its response.
func (c *honest) request(ctx context.Context, path string, body io.Reader) *http.Response {
	c.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://a"+path, body)
	if err != nil {
		c.Fatal(err)
	}
	response, err := c.RoundTrip(r)
	if err != nil {
		c.Fatal(err)
	}
	return response
}

// want compares the body of a response.
func (c *honest) want(response *http.Response, want string) {
	c.Helper()
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != want || err != nil {
		c.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// cancel sends n requests whose handlers wait, each with a part of a body if that is not nil, and
// cancels them together. It waits for the handlers: tare refuses streams while as many handlers of
// reset streams run as a client may have streams.
func (c *honest) cancel(n int, part []byte) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	failed := make(chan error, n)
	for range n {
		var body io.Reader
		if part != nil {
			in, out := io.Pipe()
			defer out.Close()
			go func() { _, _ = out.Write(part) }()
			body = in
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a/wait", body)
		if err != nil {
			c.Fatal(err)
		}
		go func() {
			_, err := c.RoundTrip(r)
			failed <- err
		}()
	}
	for range n {
		select {
		case <-c.entered:
		case err := <-failed:
			c.Fatal(err)
		}
	}
	cancel()
	for range n {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			c.Fatal(err)
		}
	}
	for range n {
		<-c.ended
	}
}

// Honest clients keep their connection, with tare as with net/http.
func TestHTTP2HonestClientsKeepTheirConnection(t *testing.T) {
	for name, act := range http2Honest() {
		for i, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			for maker := range makers {
				if maker != "tare" && i > 0 && !testkit.Slow() {
					continue // one kind of connection shows that another server serves these clients
				}
				t.Run(name+" "+mode+" "+maker, func(t *testing.T) {
					entered, ended := make(chan bool, 1000), make(chan bool, 1000)
					s := newHTTP2Site(t, maker, mode, &http.Server{Handler: honestHandler(entered, ended)})
					c, err := s.dial()
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					transport := &http2.Transport{StrictMaxConcurrentStreams: true}
					client, err := transport.NewClientConn(c) // the other one has no Ping
					if err != nil {
						t.Fatal(err)
					}
					defer client.Close()
					h := &honest{T: t, ClientConn: client, entered: entered, ended: ended}
					act(h)
					if !t.Failed() {
						h.want(h.request(t.Context(), "/refused", nil), "no")
					}
				})
			}
		}
	}
}
