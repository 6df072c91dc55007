package engine_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// hiddenIn are requests whose bodies look like other requests.
var hiddenIn = map[string]string{
	"length": "POST / HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
	"chunks": chunkedPost + fmt.Sprintf("%x\r\n", len(smuggled)) + smuggled + "\r\n0\r\n\r\n",
	"put":    "PUT / HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
	"head":   "HEAD / HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
	"1.0": "POST / HTTP/1.0\r\nConnection: keep-alive\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
	"expect": "POST / HTTP/1.1\r\n" + host + fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		len(smuggled)) + smuggled,
	"large": "POST / HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", 300<<10+len(smuggled)) +
		strings.Repeat("x", 300<<10) + smuggled,
}

// leaveBody are handlers that leave all or most of the body unread.
var leaveBody = map[string]http.HandlerFunc{
	"nothing":   func(http.ResponseWriter, *http.Request) {},
	"error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	"304":       withStatus(304, ""),
	"204":       withStatus(204, ""),
	"flushed":   func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	"large":     func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 30000)) },
	"one byte":  func(_ http.ResponseWriter, r *http.Request) { io.ReadFull(r.Body, make([]byte, 1)) },
	"closed":    func(_ http.ResponseWriter, r *http.Request) { r.Body.Close() },
	"max bytes": http.MaxBytesHandler(http.HandlerFunc(dump), 3).ServeHTTP,
	"interim":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) },
	"continue":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(100) },
	"continue, duplex": func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(100)
	},
	"duplex": func(w http.ResponseWriter, _ *http.Request) { http.NewResponseController(w).EnableFullDuplex() },
	"duplex, flushed": func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.(http.Flusher).Flush()
	},
	"duplex, one byte": func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.(http.Flusher).Flush()
		io.ReadFull(r.Body, make([]byte, 1))
	},
	"panic": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
}

// MN-11, MN-13: no byte of a remainder is parsed as a request. It is drained before the next one,
// or there is no next one.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[r.URL.Path]++
			mu.Unlock()
			if r.URL.Path == "/" {
				h(w, r)
			}
		}
	}
	for handler, h := range leaveBody {
		t.Run(handler, func(t *testing.T) {
			bothPaths(t, handle(count(h)), func(s *site) {
				for name, text := range hiddenIn {
					got := s.exchangeText(text + "GET /next HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n")
					mu.Lock()
					if seen["/"] != 1 || seen["/smuggled"] != 0 || seen["/next"] > 1 {
						s.Errorf("%s: handlers called %v\n%q", name, seen, shorten([]byte(got)))
					}
					clear(seen)
					mu.Unlock()
				}
			})
		})
	}
}

// MN-12, MN-14: after 101, or 200 to a CONNECT, a client and a proxy between treat what follows as
// a tunnel. If no handler has hijacked the connection, nothing of it is parsed as a request.
func TestUnusedTunnelIsNoRequest(t *testing.T) {
	for name, text := range map[string]string{
		"upgrade": "GET / HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
		"connect": "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && r.URL.Path == "/" {
					w.Header().Set("Connection", "Upgrade")
					w.Header().Set("Upgrade", "h2c")
					w.WriteHeader(http.StatusSwitchingProtocols)
				}
			}), func(s *site) {
				if got := s.exchangeText(text + smuggled); strings.Count(got, "HTTP/1.1 ") != 1 {
					s.Errorf("%q", got)
				}
			})
		})
	}
}

// evil would end its line and the head, and start a page.
const evil = "x\r\nSet-Cookie: evil\r\n\r\n<html>\x00\x7f"

// MN-18: no field, status or trailer that a handler sets can break out of its line.
func TestNothingIsInjected(t *testing.T) {
	setters := map[string]http.HandlerFunc{
		"values": func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X", "Connection", "Content-Type", "Content-Encoding", "Date", "Upgrade",
				"Trailer"} {
				w.Header()[name] = []string{evil}
			}
		},
		"framing": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"5" + evil}
			w.Header()["Transfer-Encoding"] = []string{"chunked" + evil}
		},
		"name": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()[evil] = []string{"y"}
			w.Header()["X: y\r\nSet-Cookie"] = []string{"y"}
		},
		"interim": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Link"] = []string{evil}
			w.WriteHeader(103)
		},
		"cookie": func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: evil, Path: evil, Domain: evil})
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+evil, http.StatusFound)
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Sum")
			io.WriteString(w, "hello")
			w.Header().Set("Sum", evil)
			w.Header()[http.TrailerPrefix+evil] = []string{evil}
			w.Header()[http.TrailerPrefix+"More"] = []string{evil}
		},
		"framing in trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Content-Length, Set-Cookie\r\nX")
			io.WriteString(w, "hello")
			w.Header().Set("Content-Length", "1")
			w.Header().Set(http.TrailerPrefix+"Transfer-Encoding", "chunked")
		},
	}
	log.SetOutput(io.Discard) // package http logs bad cookies there
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for name, set := range setters {
		t.Run(name, func(t *testing.T) {
			bothPaths(t, handle(set), func(s *site) {
				request := get
				if name == "redirect" || name == "cookie" {
					request = head // the page shows the target, escaped
				}
				got := s.exchangeText(request)
				for _, bad := range []string{"\nSet-Cookie: evil", "\nSet-Cookie: y", "\n<html>", "\x00", "\x7f",
					"\r\nTransfer-Encoding: chunked\r\nT", "Content-Length: 1\r"} {
					if strings.Contains(got, bad) {
						s.Errorf("%q in %q", bad, got)
					}
				}
				if lines := strings.ReplaceAll(got, "\r\n", ""); strings.ContainsAny(lines, "\r\n") {
					s.Errorf("bare line ends in %q", got)
				}
			})
		})
	}
}

// MN-25: text from a handler or a client is logged in one line.
func TestLogsAreEscaped(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = []string{"5\nforged"}
	}), func(s *site) {
		s.exchangeText(get)
		if got := s.logged.String(); strings.Count(got, "\n") != 1 {
			s.Errorf("%q", got)
		}
	})
}

// MN-44: a file that shrinks while it is sent ends its response and its connection.
func TestShrinkingFileEndsConnection(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
		w.(http.Flusher).Flush()
		os.Truncate(name, 100<<10)
		io.Copy(w, f)
	}), func(s *site) {
		testkit.Must(s, os.WriteFile(name, make([]byte, 1<<20), 0o600))
		_, body, _ := strings.Cut(s.exchangeText(get+smuggled), "\r\n\r\n")
		if len(body) != 100<<10 {
			s.Errorf("%d bytes", len(body))
		}
	})
}
