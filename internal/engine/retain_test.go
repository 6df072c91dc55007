package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/engine/fastcgi"
	"github.com/tarehq/tare/internal/testkit"
)

// kept are the parts of a request that programs keep in caches, logs or sets of clients.
var kept = map[string]func(r *http.Request) any{
	"value":  func(r *http.Request) any { return r.Header.Get("X-Small") },
	"values": func(r *http.Request) any { return strings.Fields(r.Header.Get("X-Small"))[0] },
	"name": func(r *http.Request) any {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Sm") {
				return name
			}
		}
		return nil
	},
	"cookie":  func(r *http.Request) any { c, _ := r.Cookie("id"); return c.Value },
	"host":    func(r *http.Request) any { return r.Host },
	"path":    func(r *http.Request) any { return r.URL.Path },
	"query":   func(r *http.Request) any { return r.URL.Query().Get("q") },
	"url":     func(r *http.Request) any { return r.URL },
	"context": func(r *http.Request) any { return r.Context() },
	"body":    func(r *http.Request) any { return r.Body },
	"uri":     func(r *http.Request) any { return r.RequestURI },
	"method":  func(r *http.Request) any { return r.Method },
	"remote":  func(r *http.Request) any { host, _, _ := net.SplitHostPort(r.RemoteAddr); return host },
	"trailer": func(r *http.Request) any {
		io.Copy(io.Discard, r.Body)
		return r.Trailer.Get("X-Tail")
	},
	"form":   func(r *http.Request) any { return r.PostFormValue("field") },
	"params": func(r *http.Request) any { return param(r, "HTTP_X_SMALL") },
}

// param returns a FastCGI parameter.
func param(r *http.Request, name string) string {
	if all := fastcgi.Params(r.Context()); all != nil {
		for n, value := range all {
			if n == name {
				return value
			}
		}
	}
	return ""
}

// largeFields returns 900 KB of fields, in few lines or in many.
func largeFields(lines int) []string {
	fields := make([]string, lines)
	for i := range fields {
		fields[i] = strings.Repeat("v", 900<<10/lines)
	}
	return fields
}

// keeps measures the memory that kept parts of n requests hold.
func keeps(t *testing.T, n int, of string, dial func() (net.Conn, error), request func(lines int) string,
	got <-chan any) {
	t.Helper()
	var before, after runtime.MemStats
	all := make([]any, 0, n)
	for i := range n + 3 {
		if i == 3 { // the first requests allocate what stays
			clear(all)
			all = all[:0]
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		c, err := dial()
		testkit.Must(t, err)
		go io.WriteString(c, request([]int{9, 450}[i%2]))
		all = append(all, <-got)
		io.Copy(io.Discard, c)
		c.Close()
	}
	if s, ok := all[0].(string); ok && s == "" && of != "params" {
		t.Errorf("%s: nothing was kept", of)
	}
	testkit.WaitFor(t, "little memory to be kept by "+of, func() bool { // the last connections may still be ending
		runtime.GC()
		runtime.ReadMemStats(&after)
		return (int64(after.HeapAlloc)-int64(before.HeapAlloc))/int64(n) < 8<<10
	})
	runtime.KeepAlive(all)
}

// A small part of a large request that a program keeps holds neither the request nor its
// connection.
func TestKeptPartsHoldLittleMemory(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it is slow with large heads")
	got := make(chan any, 1)
	someModes(t, handle(func(w http.ResponseWriter, r *http.Request) {
		got <- kept[r.URL.Query().Get("keep")](r)
	}), func(s *site) {
		for of := range kept {
			keeps(s.T, 10, of, s.dial, func(lines int) string {
				var b strings.Builder
				fmt.Fprintf(&b, "POST /some/path?keep=%s&q=small HTTP/1.1\r\nConnection: close\r\n", of)
				fields := largeFields(lines)
				for i, f := range fields {
					fmt.Fprintf(&b, "X-L%d: %s\r\n", i, f)
					if i == lines/2 {
						b.WriteString("Host: small.example\r\nX-Small: sixteen bytes ok\r\nCookie: id=small\r\n" +
							"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n" +
							"Trailer: X-Tail\r\n")
					}
				}
				b.WriteString("\r\nb\r\nfield=small\r\n0\r\n")
				for i := range 6 {
					fmt.Fprintf(&b, "X-T%d: %s\r\n", i, strings.Repeat("t", 1000))
				}
				b.WriteString("X-Tail: small\r\n\r\n")
				return b.String()
			}, got)
		}
	}, "tcp", "net.Conn")
	bothFCGIPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		got <- kept[r.URL.Query().Get("keep")](r)
	}), func(s *fcgiSite) {
		for of := range kept {
			switch of {
			case "trailer", "remote": // there is no trailer, and RemoteAddr is a new string
				continue
			case "context", "body": // they refer to the parameters
				continue
			}
			keeps(s.T, 10, of, s.dial, func(lines int) string {
				list := []string{"HTTP_HOST", "small.example", "HTTP_X_SMALL", "sixteen bytes ok", "HTTP_COOKIE",
					"id=small", "CONTENT_TYPE", "application/x-www-form-urlencoded"}
				for i, f := range largeFields(lines) {
					list = append(list, fmt.Sprintf("HTTP_X_L%d", i), f)
				}
				return fcgiRequest{once: true, method: "POST", uri: "/some/path?q=small&keep=" + of, params: list,
					body: "field=small", length: true}.String()
			}, got)
		}
	})
}

// What a handler keeps does not change. In builds with the poison tag all reused memory is
// overwritten, so that this test detects anything that refers to it.
func TestKeptRequestsDoNotChange(t *testing.T) {
	type keepsake struct {
		request *http.Request
		text    string
	}
	var mu sync.Mutex
	var kept []keepsake
	describe := func(r *http.Request) string {
		return fmt.Sprintf("%s %s %v %v %s %v", r.Method, r.RequestURI, r.URL, r.Header, r.Host, r.Trailer)
	}
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, keepsake{r, describe(r)})
		w.Write(b)
	}), func(s *site) {
		kept = nil
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 20 {
					req, _ := http.NewRequest("POST", fmt.Sprintf("http://host/%d/%d?q=%d", i, j, j),
						io.MultiReader(strings.NewReader("body")))
					req.Header.Set("X-Own", strings.Repeat(fmt.Sprint(i, j), j))
					req.Header.Set("Custom-Name", "x")
					req.Trailer = http.Header{"Sum": {fmt.Sprint(j)}}
					resp, err := s.client.Do(req)
					if err != nil {
						s.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
		for _, k := range kept {
			if now := describe(k.request); now != k.text {
				s.Errorf("was %s\nis %s", k.text, now)
			}
			if _, err := k.request.Body.Read(make([]byte, 1)); err == nil {
				s.Error("body can still be read")
			}
		}
		if len(kept) != 80 {
			s.Errorf("%d requests seen", len(kept))
		}
	})
}
