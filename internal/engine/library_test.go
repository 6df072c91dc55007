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
	"github.com/tarehq/tare/internal/testkit"
)

// A WebSocket library that only knows net/http works.
func TestWebSocketLibraryWorks(t *testing.T) {
	bothPaths(t, handle(echo), func(s *site) { s.sendMessages("http://host/") })
}

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

// MaxBytesReader: a small remainder is drained and the connection kept. A large one ends the
// connection.
func TestMaxBytesReaderLimitsBody(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		}
	}), func(s *site) {
		for _, chunked := range []bool{false, true} {
			for size, keeps := range map[int]bool{10: true, 11: true, 100 << 10: true, 300 << 10: false} {
				body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
				if chunked {
					body = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size,
						strings.Repeat("x", size))
				}
				// a client that sends more than is read has half a second until the
				// connection is closed
				testkit.Try(s.T, func() error {
					got := s.exchangeText("POST / HTTP/1.1\r\n" + host + body + get)
					if strings.Contains(got, "413 ") != (size > 10) || (strings.Count(got, "HTTP/1.1 ") == 2) != keeps {
						return fmt.Errorf("%d bytes, chunked %v: %q", size, chunked, got)
					}
					return nil
				})
			}
		}
	})
}

// TimeoutHandler responds in time, and its handler, which continues, affects nothing else.
func TestTimeoutHandlerRespondsInTime(t *testing.T) {
	responded, ended := make(chan bool), make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-responded
			_, err := io.WriteString(w, "late")
			ended <- err
		}
		io.WriteString(w, "in time")
	})
	paths := http.NewServeMux() // so that fast handlers have enough time on a busy machine
	paths.Handle("/slow", http.TimeoutHandler(handler, 50*time.Millisecond, "too slow"))
	paths.Handle("/", http.TimeoutHandler(handler, time.Minute, "too slow"))
	bothPaths(t, func() *http.Server { return &http.Server{Handler: paths} }, func(s *site) {
		for range 3 {
			if got := s.get("/slow"); got != "too slow" {
				s.Errorf("%q", got)
			}
			responded <- true
			if got := s.get("/"); got != "in time" {
				s.Errorf("%q", got)
			}
			if err := <-ended; !errors.Is(err, http.ErrHandlerTimeout) {
				s.Errorf("late write: %v", err)
			}
		}
	})
}

// Trailers, interim responses and full duplex work with a client of net/http.
func TestTrailersPassInBothDirections(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "%s!\n", lines.Text())
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Sum", r.Trailer.Get("Sum"))
	}), func(s *site) {
		in, out := io.Pipe()
		req, _ := http.NewRequest(http.MethodPost, "http://host/", in)
		req.Trailer = http.Header{"Sum": {"42"}}
		go io.WriteString(out, "0\n")
		resp, err := s.client.Do(req)
		if err != nil {
			s.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for i := range 10 {
			if line, err := lines.ReadString('\n'); line != fmt.Sprintf("%d!\n", i) {
				s.Fatalf("%q %v", line, err)
			}
			fmt.Fprintf(out, "%d\n", i+1)
		}
		out.Close()
		io.Copy(io.Discard, lines)
		if got := resp.Trailer.Get("Sum"); got != "42" {
			s.Errorf("trailer %q", got)
		}
	})
}

// A handler's own deadlines end its Read and Write on both paths.
func TestResponseControllerDeadlinesEndReadAndWrite(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Now().Add(50*time.Millisecond)),
			control.SetWriteDeadline(time.Time{})); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%v", timedOut(err))
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, "POST / HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhe")
		if b, err := io.ReadAll(c); !strings.HasSuffix(string(b), "true") {
			s.Errorf("%q %v", b, err)
		}
	})
}

// The context is canceled when the client leaves, however the handler uses it.
func TestDepartureCancelsContextOnBothPaths(t *testing.T) {
	entered, ended := make(chan bool), make(chan error, 1)
	variants := map[string]func(context.Context){
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
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			<-ctx.Done()
		},
	}
	bothPaths(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		entered <- true
		variants[r.URL.Path](r.Context())
		ended <- r.Context().Err()
	}), func(s *site) {
		for path := range variants {
			c := s.connect()
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%s\r\n", path, host)
			<-entered
			c.Close()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					s.Errorf("%s: %v", path, err)
				}
			case <-time.After(time.Minute):
				s.Fatalf("%s: not cancelled", path)
			}
		}
	})
}

// Responses to requests that were pipelined before one that hijacks arrive before the handler's own
// output.
func TestEarlierResponsesPrecedeHijackedOutput(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hijack" {
			io.WriteString(w, "before.")
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func(c net.Conn) { c.Close() }(c)
		io.WriteString(c, "taken.")
	}), func(s *site) {
		c := s.connect()
		for range 100 { // so that handlers run on the loop
			io.WriteString(c, get)
			readResponses(s.T, c, 1)
		}
		for range 20 {
			c := s.connect()
			io.WriteString(c, get+get+get+"GET /hijack HTTP/1.1\r\n"+host+"\r\n")
			b, err := io.ReadAll(c)
			if got := string(b); strings.Count(got, "before.") != 3 || !strings.HasSuffix(got, "before.taken.") ||
				err != nil {
				s.Errorf("%q %v", got, err)
			}
		}
	})
}
