package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// bothPaths runs a test on the goroutine path and on shards.
func bothPaths(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	someModes(t, settings, test, "tcp", "net.Conn")
}

func (s *site) connect() net.Conn {
	s.Helper()
	c := testkit.Value(s.dial())(s)
	s.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// exchangeText sends text on a connection of its own and returns everything that comes back. If the
// server keeps the connection, it closes its sending side.
func (s *site) exchangeText(text string) string {
	s.Helper()
	c := s.connect()
	sent := make(chan bool)
	go func() {
		defer close(sent)
		io.WriteString(c, text)
		closeWriteOf(c)
	}()
	defer func() { <-sent }()
	return readAllOf(s.T, c)
}

func closeWriteOf(c net.Conn) { c.(interface{ CloseWrite() error }).CloseWrite() }

// readAllOf returns what a connection receives until its end, which must come.
func readAllOf(t *testing.T, c io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(c)
	if os.IsTimeout(err) {
		t.Errorf("no end after %q", b)
	}
	return string(b)
}

// attack is input that a server must reject, and part of the expected response.
type attack struct{ name, text, want string }

// rejected returns attacks that get the same response: what text makes of each part.
func rejected(want string, text func(string) string, parts ...string) (all []attack) {
	for _, part := range parts {
		all = append(all, attack{fmt.Sprintf("%s %.50q", want, part), text(part), want})
	}
	return all
}

const smuggled = "GET /smuggled HTTP/1.1\r\n" + host + "\r\n"

func whole(text string) string      { return text }
func withField(field string) string { return "GET / HTTP/1.1\r\n" + host + field + "\r\n\r\n" }
func withCoding(text string) string { return withField("Transfer-Encoding: " + text) }
func withLength(text string) string { return withField("Content-Length: " + text) }
func withHost(name string) string   { return "GET / HTTP/1.1\r\nHost: " + name + "\r\n\r\n" }
func target(text string) string     { return "GET " + text + " HTTP/1.1\r\n" + host + "\r\n" }

const (
	malformed = "400 Bad Request: malformed "
	tooLarge  = "431 Request Header Fields Too Large: "
)

// heads are rejected before any handler runs.
var heads = slices.Concat(
	rejected("400 Bad Request: both Transfer-Encoding and Content-Length", whole,
		"POST / HTTP/1.1\r\n"+host+"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"),
	rejected("Unsupported", withCoding, "xchunked", "gzip, chunked", "chunked, chunked", ",chunked",
		"identity", "", `"chunked"`, "chunked;a=b", "\xa0chunked", "chunked\r\nTransfer-Encoding: chunked", "\r\n chunked"),
	rejected("400 Bad Request: control byte", withCoding, "\vchunked", "chunked\r x"),
	rejected("400 Bad Request: Transfer-Encoding on HTTP/1.0", whole,
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	rejected(malformed+"Content-Length", withLength, "+5", "-5", "0x5", "1_0", "", "5, 5", "\xd9\xa5"),
	rejected("400 Bad Request: second Content-Length", withLength, "3\r\nContent-Length: 3", "3\r\ncontent-length: 4"),
	rejected("400 Bad Request: Content-Length out of range", withLength, "9223372036854775808", "18446744073709551617"),
	rejected("400 Bad Request: CRLF after a line that ends in LF", whole, "GET / HTTP/1.1\n"+host+"\r\n"),
	rejected("400 Bad Request: LF without CR", whole, "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
		"GET / HTTP/1.1\r\n"+host+"\n"),
	rejected("400 Bad Request", whole, "GET / HTTP/1.1\r"+host+"\r\n"),
	rejected("400 Bad Request: control byte", withField, "X: a\rContent-Length: 5", "X: a\x00b"),
	rejected("400 Bad Request: folded field line", whole, withField("X: a\r\n folded"),
		withField("Transfer-Encoding: chunked\r\n , identity"), "GET / HTTP/1.1\r\n "+host+"\r\n"),
	rejected("400 Bad Request: space in field name or before its colon", withField, "Y : a", "Content-Length\t: 5"),
	rejected("400 Bad Request: empty field name", withField, ": x"),
	rejected("400 Bad Request: field line without a colon", withField, "Content-Length"),
	rejected("400 Bad Request: byte not allowed in field name", withField, "Content\x00-Length: 5",
		"Content-Length\xc2: 5", "X[0]: 5"),
	rejected("400 Bad Request: missing Host", whole, "GET / HTTP/1.1\r\n\r\n"),
	rejected("400 Bad Request: second Host", withField, "Host: b", "host: a"),
	rejected(malformed+"Host", withHost, "u@a", "a,b", "a/b", "a#b", "a b", "a:b", "[::1", "[a.example]",
		"[abc]", "[:::]", "[::1]b"),
	rejected(malformed+"request target", target, "http://u@b/", "http://[::1].b/", "http:///",
		"http://a,b/", "%zz", "/%zz", "/a\tb", " /", "/\x00"),
	rejected(malformed+"request target", whole, "CONNECT u@b:1 HTTP/1.1\r\n"+host+"\r\n"),
	rejected("505 HTTP Version Not Supported: protocol is not HTTP/1", whole, "PRI * HTTP/2.0\r\nX: y\r\n\r\n"),
	rejected(malformed+"protocol version", whole, "GET / HTTP/x.y\r\n"+host+"\r\n"),
	rejected("400 Bad Request", whole, "GET /\r\n"+host+"\r\n"),
	rejected(malformed+"method", whole, "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n"),
	rejected("417 Expectation Failed: unknown expectation", withField, "Expect: wonders",
		"Expect: ,", "Expect: wonders\r\nExpect: 100-continue"),
	rejected(tooLarge+"too many field lines", withField, strings.Repeat("X:\r\n", 500)+"Y:"),
	rejected(tooLarge+"too many names in the Trailer field", withField,
		"Transfer-Encoding: chunked\r\nTrailer: "+numbered(501)),
	rejected("400 Bad Request: trailer field not allowed", withField,
		"Transfer-Encoding: chunked\r\nTrailer: Content-Length"),
	rejected(tooLarge+"section too large", withField, strings.Repeat("x", 70000)+": y",
		"X: "+strings.Repeat("x", 70000)),
	rejected("414 Request URI Too Long: section too large", whole, target("/"+strings.Repeat("x", 70000)),
		strings.Repeat("X", 70000)+" / HTTP/1.1\r\n\r\n"),
)

func numbered(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("T", i))
	}
	return strings.Join(names, ",")
}

// A head that two readers could parse differently gets one response, and its connection is closed.
// Nothing after it is parsed as a request, and nothing of it is echoed.
func TestHostileHeadsAreRejected(t *testing.T) {
	var calls atomic.Int32
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	bothPaths(t, func() *http.Server { return &http.Server{MaxHeaderBytes: 8192, Handler: count} }, func(s *site) {
		for _, a := range heads {
			s.Run(a.name, func(t *testing.T) {
				got := s.in(t).exchangeText(a.text + smuggled)
				head, body, _ := strings.Cut(got, "\r\n\r\n")
				if !strings.HasPrefix(body, a.want) || !strings.Contains(head, "Connection: close") {
					t.Errorf("got %q, want %s", got, a.want)
				}
				if n := calls.Swap(0); n != 0 || strings.Count(got, "HTTP/1.1 ") != 1 ||
					strings.Contains(got, "smuggled") {
					t.Errorf("%d calls, responses %q", n, got)
				}
			})
		}
	})
}

const chunkedPost = "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n"

// chunks are bodies that make the handler's Read fail.
var chunks = slices.Concat(
	rejected("chunk size out of range", threeBytes, "ffffffffffffffff", "00000000000000003", "10000000000000003"),
	rejected("malformed chunk size", threeBytes, "-3", "+3", "0x3", "0_3", "", " 3", "3 ", "3\t"),
	rejected("malformed chunk size", whole, "3\nabc\r\n0\r\n\r\n", "0\n\r\n"),
	rejected("CR without LF in chunk line", whole, "3\rabc\r\n0\r\n\r\n"),
	rejected("CR without LF", threeBytes, "3;a\rb"),
	rejected("malformed chunk extension", threeBytes, "3;", "3;a\nb", "3;a=\"\n\"", "3;a\x00"),
	rejected("chunk data not followed by CRLF", whole, "3\r\nabc0\r\n\r\n", "3\r\nabc\n0\r\n\r\n",
		"3\r\nabcXX0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n"),
	rejected("LF without CR", whole, "0\r\n\n"),
	rejected("field not allowed in a trailer section", trailing, "Content-Length: 5",
		"Transfer-Encoding: chunked", "Host: b", "Connection: close"),
	rejected("folded field line", trailing, "X: a\r\n b"),
	rejected("space in field name", trailing, "X : a"),
	rejected("too much overhead", whole, "3;"+strings.Repeat("x", 20000)+"\r\nabc\r\n0\r\n\r\n",
		strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 200)+"0\r\n\r\n",
		"0;"+strings.Repeat("x", 20000)+"\r\n\r\n"),
	rejected("section too large", trailing, "X: "+strings.Repeat("x", 9000)),
	rejected("too many field lines", trailing, strings.Repeat("X: y\r\n", 500)+"X: y"),
)

// threeBytes returns a body with a chunk that has a size, or what stands for it.
func threeBytes(size string) string { return size + "\r\nabc\r\n0\r\n\r\n" }

// trailing returns an empty body with lines in its trailer section.
func trailing(lines string) string { return "0\r\n" + lines + "\r\n\r\n" }

// A malformed body is an error for its handler and ends the connection. Nothing of it is parsed as
// a request, also if the handler does not read it.
func TestHostileBodiesAreRejected(t *testing.T) {
	failed := make(chan error, 10)
	bothPaths(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		if r.URL.Path != "/unread" {
			_, err = io.ReadAll(r.Body)
		}
		failed <- err
	}), func(s *site) {
		for _, a := range chunks {
			s.Run(a.name, func(t *testing.T) {
				for _, path := range []string{"/", "/unread"} {
					head := strings.Replace(chunkedPost, "/", path, 1)
					got := s.in(t).exchangeText(head + a.text + smuggled)
					if err := <-failed; path == "/" && (err == nil || !strings.Contains(err.Error(), a.want)) {
						t.Errorf("got %v, want %s", err, a.want)
					}
					if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.Contains(got, "Connection: close") ||
						len(failed) != 0 {
						t.Errorf("%s: responses %q", path, got)
					}
				}
			})
		}
	})
}

var smuggledLength = fmt.Sprintf("Content-Length: %d", len(smuggled))

// hiddenIn are requests whose bodies look like other requests.
var hiddenIn = map[string]string{
	"length": posted(smuggledLength, smuggled),
	"chunks": chunkedPost + fmt.Sprintf("%x\r\n", len(smuggled)) + smuggled + "\r\n0\r\n\r\n",
	"put":    strings.Replace(posted(smuggledLength, smuggled), "POST", "PUT", 1),
	"head":   strings.Replace(posted(smuggledLength, smuggled), "POST", "HEAD", 1),
	"1.0":    "POST / HTTP/1.0\r\nConnection: keep-alive\r\n" + smuggledLength + "\r\n\r\n" + smuggled,
	"expect": posted("Expect: 100-continue\r\n"+smuggledLength, smuggled),
	"large":  posted(fmt.Sprintf("Content-Length: %d", 300<<10+len(smuggled)), strings.Repeat("x", 300<<10)+smuggled),
}

// leaveBody are handlers that leave all or most of the body unread.
var leaveBody = map[string]http.HandlerFunc{
	"nothing":   func(http.ResponseWriter, *http.Request) {},
	"error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	"304":       withStatus(304, ""),
	"204":       withStatus(204, ""),
	"flushed":   flush,
	"large":     handlers["large"],
	"one byte":  readBytes(1),
	"closed":    closeBody,
	"max bytes": handlers["max bytes"],
	"interim":   status(103),
	"continue":  status(100),

	"continue, duplex": inTurn(duplex, status(100)),
	"duplex":           duplex,
	"duplex, flushed":  inTurn(duplex, flush),
	"duplex, one byte": inTurn(duplex, flush, readBytes(1)),
	"panic":            handlers["abort"],
}

// hiddenInRecords are the same over FastCGI.
var hiddenInRecords = map[string]string{
	"small":           aPOST(aGET("/smuggled")),
	"several records": aPOST(strings.Repeat("x", 2*largestContent) + aGET("/smuggled")),
	"large":           aPOST(strings.Repeat("x", 300<<10) + aGET("/smuggled")),
}

// No byte of a remainder is parsed as a request. It is drained before the next one, or there is no
// next one. Over FastCGI there is one, unless the handler panics.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	for handler, h := range leaveBody {
		t.Run(handler, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			settings := handle(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.URL.Path]++
				mu.Unlock()
				if r.URL.Path == "/" {
					h(w, r)
				}
			})
			check := func(s *site, hidden map[string]string, next string, mustServeNext bool) {
				for name, text := range hidden {
					got := s.exchangeText(text + next)
					mu.Lock()
					if n := seen["/next"]; seen["/"] != 1 || seen["/smuggled"] != 0 || n > 1 || n == 0 && mustServeNext {
						s.Errorf("%s: handlers called %v\n%q", name, seen, shorten([]byte(got)))
					}
					clear(seen)
					mu.Unlock()
				}
			}
			bothPaths(t, settings, func(s *site) {
				check(s, hiddenIn, "GET /next HTTP/1.1\r\n"+host+"Connection: close\r\n\r\n", false)
			})
			everyFCGIMode(t, settings, func(s *fcgiSite) {
				check(s.site, hiddenInRecords, aGET("/next"), handler != "panic")
			})
		})
	}
}

// After 101, or 200 to a CONNECT, a client and a proxy between treat what follows as a tunnel.
// If no handler has hijacked the connection, nothing of it is parsed as a request.
func TestUnusedTunnelIsNoRequest(t *testing.T) {
	for text, h := range map[string]http.HandlerFunc{
		withField("Connection: upgrade\r\nUpgrade: h2c"): inTurn(field("Connection", "Upgrade"), field("Upgrade", "h2c"),
			status(http.StatusSwitchingProtocols)),
		"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n": handlers["nothing"],
	} {
		bothPaths(t, handle(h), func(s *site) {
			testkit.Equal(s, strings.Count(s.exchangeText(text+smuggled), "HTTP/1.1 "), 1, "responses to", text)
		})
	}
}

// evil would end its line and the head, and start a page.
const evil = "x\r\nSet-Cookie: evil\r\n\r\n<html>\x00\x7f"

// No field, status or trailer that a handler sets can break out of its line, neither in the
// response nor in the log.
func TestNothingIsInjected(t *testing.T) {
	setters := map[string]http.HandlerFunc{
		"values": func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X", "Connection", "Content-Type", "Content-Encoding", "Date", "Upgrade",
				"Trailer"} {
				w.Header()[name] = []string{evil}
			}
		},
		"framing": inTurn(field("Content-Length", "5"+evil), field("Transfer-Encoding", "chunked"+evil)),
		"name":    inTurn(field(evil, "y"), field("X: y\r\nSet-Cookie", "y")),
		"interim": inTurn(field("Link", evil), status(103)),
		"trailers": inTurn(field("Trailer", "Sum"), write("hello"), field("Sum", evil),
			field(http.TrailerPrefix+evil, evil), field(http.TrailerPrefix+"More", evil)),
		"framing in trailers": inTurn(field("Trailer", "Content-Length, Set-Cookie\r\nX"), write("hello"),
			field("Content-Length", "1"), field(http.TrailerPrefix+"Transfer-Encoding", "chunked")),
	}
	for name, set := range setters {
		t.Run(name, func(t *testing.T) {
			bothPaths(t, handle(set), func(s *site) {
				got := s.exchangeText(get)
				for _, bad := range []string{"\nSet-Cookie: evil", "\nSet-Cookie: y", "\n<html>", "\x00", "\x7f",
					"\r\nTransfer-Encoding: chunked\r\nT", "Content-Length: 1\r"} {
					testkit.Lacks(s, got, bad)
				}
				lines := strings.ReplaceAll(got, "\r\n", "")
				testkit.Equal(s, strings.ContainsAny(lines, "\r\n"), false, "bare line ends in", got)
				wantLines := map[string]int{"framing": 1}[name]
				testkit.Equal(s, strings.Count(s.logged.String(), "\n"), wantLines, "lines in", s.logged.String())
			})
		})
	}
}

// A file that shrinks while it is sent ends its response and its connection.
func TestShrinkingFileEndsConnection(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		f := testkit.Value(os.Open(name))(t)
		defer f.Close()
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
		w.(http.Flusher).Flush()
		os.Truncate(name, 100<<10)
		io.Copy(w, f)
	}), func(s *site) {
		testkit.Must(s, os.WriteFile(name, make([]byte, 1<<20), 0o600))
		_, body, _ := strings.Cut(s.exchangeText(get+smuggled), "\r\n\r\n")
		testkit.Equal(s, len(body), 100<<10)
	})
}

// What a file has beyond Content-Length is not sent. Reading the file may use the response.
func TestLongerFileIsCut(t *testing.T) {
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		from, to, _ := os.Pipe()
		fmt.Fprintf(to, "%10000d", 1)
		f := flushingFile{from, w}
		w.Header().Set("Content-Length", "9000")
		testkit.FailsWith(io.CopyN(w, f, 1<<20))(t, http.ErrContentLength)
	}), func(s *site) {
		_, body, _ := strings.Cut(s.exchangeText(get), "\r\n\r\n")
		testkit.Equal(s, len(body), 9000)
	})
}

type flushingFile struct {
	*os.File
	w http.ResponseWriter
}

func (f flushingFile) Read(p []byte) (int, error) {
	f.w.(http.Flusher).Flush()
	return f.File.Read(p)
}
