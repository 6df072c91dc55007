package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

// A handler that responds before it has read the body, which is then drained, and reads on,
// receives an error and not the end of the body, as with net/http.
func TestDrainedBodyDoesNotEndSilently(t *testing.T) {
	const size = 20_000
	content := strings.Repeat("x", size)
	handlers := map[string]http.HandlerFunc{
		"flush": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		},
		"read some, flush": func(w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 100))
			w.(http.Flusher).Flush()
			n, err := r.Body.Read(make([]byte, 1))
			fmt.Fprint(w, n, err)
		},
		"large write": func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, size))
			_, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, err)
		},
		"echo": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, make([]byte, 1000))
			fmt.Fprint(w, err)
		},
		"full duplex": func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		},
	}
	for _, mode := range []string{"tcp", "net.Conn", "tls", "ServeTLS"} {
		for _, name := range slices.Sorted(maps.Keys(handlers)) {
			t.Run(mode+"/"+name, func(t *testing.T) {
				for _, coding := range []string{"length", "chunked"} {
					var got [2]string
					for i, maker := range []string{"net/http", "tare"} {
						s := siteOf(t, maker, mode, handle(handlers[name])())
						body := io.Reader(strings.NewReader(content))
						if coding == "chunked" {
							body = struct{ io.Reader }{body}
						}
						resp, err := s.client.Post("http://host/", "", body)
						testkit.Must(t, err)
						b, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						got[i] = fmt.Sprintf("%v …%q", err, b[max(0, len(b)-40):])
					}
					if got[0] != got[1] {
						t.Errorf("%s: %s, with net/http %s", coding, got[1], got[0])
					}
				}
			})
		}
	}
}

// Clients that are still sending a large body when the response comes receive the response, and no
// reset.
func TestResponseBeforeEndOfBodyArrives(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	const clients, rounds, why = 8, 4, "too much"
	content := make([]byte, 5<<20)
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		_ = w.(connection.ResponseWriter).SetLinger(time.Minute, time.Minute, false) // a busy machine may be slow
		http.Error(w, why, http.StatusRequestEntityTooLarge)
	}), func(s *site) {
		upload := func(body io.Reader, closes bool) error {
			req, err := http.NewRequest(http.MethodPost, "http://host/", body)
			if err != nil {
				return err
			}
			req.Close = closes
			resp, err := s.client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
				return fmt.Errorf("%s %q %w", resp.Status, b, err)
			}
			return nil
		}
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for i := range rounds {
					body := io.Reader(bytes.NewReader(content))
					if i%2 > 0 {
						body = io.MultiReader(body) // of unknown length
					}
					if err := upload(body, i > 1); err != nil {
						s.Errorf("round %d: %v", i, err)
					}
				}
			})
		}
		all.Wait()
		c := s.connect() // a client that sends everything before it reads
		fmt.Fprintf(c, "POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", len(content))
		if _, err := c.Write(content); err != nil {
			s.Error(err)
		}
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), why) {
			s.Errorf("%q %v", b, err)
		}
	}, "tcp", "net.Conn", "tls", "ServeTLS")
}

// A client may send its body slowly, although the handler neither reads it nor keeps the
// connection: the server reads a small body to its end. The context ends with the handler.
func TestUnreadBodyMayArriveSlowly(t *testing.T) {
	for name, newServer := range makers {
		for _, closing := range []string{"", "Connection: close\r\n"} {
			for _, closesBody := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%q/%v", name, closing, closesBody), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { sendSlowly(t, newServer, closing, closesBody) })
				})
			}
		}
	}
}

func sendSlowly(t *testing.T, newServer func(*http.Server) server, closing string, closesBody bool) {
	ended := false
	s := newServer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { ended = true })
		if closesBody {
			_ = r.Body.Close()
		}
		io.WriteString(w, "refused")
	})})
	var nw testkit.Network
	done := goServe(s, nw.Listen())
	c, err := nw.Dial()
	testkit.Must(t, err)
	for i, p := range []string{"POST / HTTP/1.1\r\n" + host + closing + "Transfer-Encoding: chunked\r\n\r\n",
		"5\r\nhello\r\n", "5\r\nhello\r\n", "0\r\n\r\n"} {
		if _, err := io.WriteString(c, p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
		pass(2 * time.Second)
		if hasReturned := !closesBody || i == 3; ended != hasReturned {
			t.Errorf("after %q: the context has ended: %v", p, ended)
		}
	}
	if b, closed := c.Received(); closed != (closing != "") || !strings.HasSuffix(string(b), "refused") {
		t.Errorf("closed=%v %q", closed, b)
	}
	s.Close()
	c.Close()
	<-done
}

// Data of a large chunk is read in pieces as large as with net/http, whatever the input buffer's size.
func TestLargeChunksAreReadInLargePieces(t *testing.T) {
	const size, least = 256 << 10, 8 << 10
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		total, largest, p := 0, 0, make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(p)
			if total, largest = total+n, max(largest, n); err != nil {
				fmt.Fprint(w, err, total, largest >= least)
				return
			}
		}
	}), func(s *site) {
		text := chunkedPost + fmt.Sprintf("%x\r\n%s\r\n3\r\nabc\r\n0\r\n\r\n", size, strings.Repeat("d", size))
		if got, want := s.exchangeText(text), fmt.Sprint(io.EOF, size+3, true); !strings.Contains(got, want) {
			s.Errorf("%q, want %q", got, want)
		}
	})
}
