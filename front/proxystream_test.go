package front_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// streamCase is a location with a streaming upstream. Its name is the path.
type streamCase struct{ upstream, filter, buffering string }

func (c streamCase) path() string { return "/" + c.upstream + "-" + c.filter + "-" + c.buffering }

// streamUpstreams are the upstreams of a streamer, with HTTP in the spelling of proxy_pass.
func streamUpstreams() map[string]string {
	const params = ` fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $uri;
		fastcgi_param SCRIPT_NAME $uri; fastcgi_param SERVER_PROTOCOL $server_protocol;
		fastcgi_param HTTP_HOST $host;`
	return map[string]string{
		"chunked": "proxy_http_version 1.1; proxy_pass http://TCP;",
		"length":  "proxy_http_version 1.1; proxy_pass http://TCP;",
		"close":   "proxy_http_version 1.0; proxy_pass http://TCP;",
		"unix":    "proxy_http_version 1.1; proxy_pass http://unix:UNIX;",
		"tls":     "proxy_http_version 1.1; proxy_pass https://TLS;",
		"http2":   "proxy_http_version 2; proxy_pass http://TCP;",
		"grpc":    "grpc_pass grpc://TCP;",
		"fastcgi": "fastcgi_pass unix:FCGI;" + params,
		"bound":   "proxy_pass http://streamer;",
	}
}

// streamFilters are what a response passes on its way. P is the prefix of an upstream's directives.
func streamFilters() map[string]string {
	return map[string]string{
		"none":       "",
		"gzip":       "gzip on; gzip_min_length 1;",
		"br":         "brotli on; brotli_min_length 1;",
		"zstd":       "zstd on; zstd_min_length 1;",
		"sub":        "sub_filter event Event; sub_filter_once off;",
		"gunzip":     "gunzip on;",
		"addition":   "add_before_body /added; add_after_body /added;",
		"cache":      "P_cache P; P_cache_key $uri; P_cache_valid any 1m;",
		"uncached":   "P_cache P; P_cache_key $uri; P_cache_valid any 1m;",
		"toolong":    "P_cache Psmall; P_cache_key $uri; P_cache_valid any 1m;",
		"slice":      "slice 1m; P_cache P; P_cache_key $uri$slice_range; P_cache_valid any 1m;",
		"limit":      "limit_rate 1m;",
		"readlimit":  "P_limit_rate 1m;",
		"auth":       "auth_request /added;",
		"errorpage":  "P_intercept_errors on; error_page 404 =200 /fallbackPATH;",
		"conditions": "",
	}
}

// streamCases returns all cases that can be configured.
func streamCases() (all []streamCase) {
	for upstream := range streamUpstreams() {
		for filter, text := range streamFilters() {
			for _, buffering := range []string{"on", "off", "no"} {
				isCached, hasNoProxy := strings.Contains(text, "P_"), upstream == "grpc" || upstream == "bound"
				if hasNoProxy && (isCached || buffering == "off") || filter == "readlimit" && buffering != "on" {
					continue
				}
				all = append(all, streamCase{upstream, filter, buffering})
			}
		}
	}
	slices.SortFunc(all, func(a, b streamCase) int { return strings.Compare(a.path(), b.path()) })
	return all
}

// locations returns the locations of a case.
func (c streamCase) locations() string {
	prefix, pass, filter := "proxy", streamUpstreams()[c.upstream], streamFilters()[c.filter]
	if c.upstream == "fastcgi" || c.upstream == "grpc" {
		prefix = c.upstream
	}
	buffering := ""
	if c.buffering == "off" {
		buffering = "P_buffering off;"
	}
	text := fmt.Sprintf("location %s { %s %s %s }\n", c.path(), pass, filter, buffering)
	if c.filter == "errorpage" {
		text += fmt.Sprintf("location /fallback%s { %s %s }\n", c.path(), pass, buffering)
	}
	return strings.NewReplacer("P_", prefix+"_", "cache P;", "cache "+prefix+";", "cache Psmall;",
		"cache "+prefix+"small;", "PATH", c.path()).Replace(text)
}

// isHeldByNginx reports whether nginx holds back events of a case: until a buffer is full, the
// compressor has a block, the added body follows, or more is in the cache's file.
func (c streamCase) isHeldByNginx() bool {
	isChunked := c.upstream == "chunked" || c.upstream == "unix" || c.upstream == "tls"
	return c.upstream != "grpc" && c.buffering == "on" &&
		(!isChunked || c.filter == "gzip" || c.filter == "addition" || c.filter == "toolong")
}

// streamer is an upstream that sends an event when the client has received the one before.
type streamer struct{ arrived chan string }

func streamEvent(i int) string { return "event " + strconv.Itoa(i) + "\n" }

const streamEvents = 4

// await waits until the client has received something, or has gone.
func (s *streamer) await(r *http.Request, what string) {
	select {
	case got := <-s.arrived:
		if got != what {
			panic(fmt.Sprintf("the client received %q, want %q", got, what))
		}
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

func (s *streamer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isFallback := strings.CutPrefix(r.URL.Path, "/fallback")
	var c streamCase
	c.upstream, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "-")
	c.filter, c.buffering, _ = strings.Cut(path, "-")
	if c.filter == "errorpage" && !isFallback {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	control, header, length, status := http.NewResponseController(w), w.Header(), 0, http.StatusOK
	var events [streamEvents][]byte
	var text bytes.Buffer
	encoder := gzip.NewWriter(&text)
	for i := range events {
		if events[i] = []byte(streamEvent(i)); c.filter == "gunzip" {
			_, _ = encoder.Write(events[i])
			if _ = encoder.Flush(); i == streamEvents-1 {
				_ = encoder.Close()
			}
			events[i] = bytes.Clone(text.Bytes())
			text.Reset()
		}
		if c.filter == "toolong" && i == 0 {
			events[i] = append(bytes.Repeat([]byte("added\n"), 10_000), events[i]...)
		}
		length += len(events[i])
	}
	header.Set("Content-Type", "text/html")
	switch c.filter {
	case "gunzip":
		header.Set("Content-Encoding", "gzip")
	case "uncached":
		header.Set("Cache-Control", "no-store")
	case "slice":
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", length-1, length))
	case "conditions":
		header.Set("Etag", `"a"`)
	}
	if c.buffering == "no" {
		header.Set("X-Accel-Buffering", "no")
	}
	if c.upstream == "length" {
		header.Set("Content-Length", strconv.Itoa(length))
	}
	w.WriteHeader(status)
	_ = control.Flush()
	if c.buffering != "on" && c.filter != "addition" {
		s.await(r, "the head")
	}
	for i, b := range events {
		_, _ = w.Write(b)
		_ = control.Flush()
		if isLast := i == streamEvents-1; !isLast || c.upstream != "length" && c.filter != "slice" {
			s.await(r, streamEvent(i)) // a complete body may wait for the response's end
		}
	}
}

// follow requests a path, and reports to the streamer what has arrived.
func (s *streamer) follow(t *testing.T, ctx context.Context, c streamCase, client *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://front.test"+c.path(), nil)
	if err != nil {
		return err
	}
	switch c.filter {
	case "gzip", "br", "zstd":
		r.Header.Set("Accept-Encoding", c.filter)
	case "conditions":
		r.Header.Set("If-None-Match", `"b"`)
		r.Header.Set("Range", "bytes=0-1")
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	report := func(what string) error {
		select {
		case s.arrived <- what:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("after %q: %w", what, ctx.Err())
		}
	}
	if c.buffering != "on" && c.filter != "addition" {
		if err := report("the head"); err != nil {
			return err
		}
	}
	coding := resp.Header.Get("Content-Encoding")
	if coding == "" == (c.filter == "gzip" || c.filter == "br" || c.filter == "zstd") {
		return fmt.Errorf("coding %q", coding)
	}
	lines := bufio.NewReader(decoded(t, coding, resp.Body))
	for i := range streamEvents {
		line := "added\n"
		for line == "added\n" {
			var err error
			if line, err = lines.ReadString('\n'); err != nil {
				return fmt.Errorf("event %d: %w", i, err)
			}
		}
		if c.filter == "sub" {
			line = strings.ToLower(line[:1]) + line[1:]
		}
		if isLast := i == streamEvents-1; !isLast || c.upstream != "length" && c.filter != "slice" {
			if err := report(line); err != nil {
				return err
			}
		}
	}
	_, err = io.Copy(io.Discard, lines)
	return err
}

// listen serves the streamer by all protocols, and returns what replaces the names in directives.
func (s *streamer) listen(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := testkit.ShortDir(t)
	byUnix, byFastCGI := filepath.Join(dir, "u"), filepath.Join(dir, "f")
	serveAt(t, testkit.Value(net.Listen("unix", byUnix))(t), s)
	l := testkit.Value(net.Listen("unix", byFastCGI))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fcgi.Serve(l, s)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return strings.NewReplacer("TCP", unencryptedHTTP2(t, s).Listener.Addr().String(), "TLS",
		serveTLS(t, new(tls.Config), s.ServeHTTP).Listener.Addr().String(), "UNIX", byUnix, "FCGI", byFastCGI)
}

const streamOuter = `proxy_cache_path DIR/p1 keys_zone=proxy:1m; fastcgi_cache_path DIR/f1 keys_zone=fastcgi:1m;
	proxy_cache_path DIR/p2 keys_zone=proxysmall:1m max_size=32k;
	fastcgi_cache_path DIR/f2 keys_zone=fastcgismall:1m max_size=32k;`

// streamBlock returns the locations of cases.
func streamBlock(cases []streamCase, upstreams *strings.Replacer) string {
	var text strings.Builder
	for _, c := range cases {
		text.WriteString(c.locations())
	}
	return upstreams.Replace(text.String()) + "location /added { return 200 \"added\n\"; }\n"
}

// A response is passed on when its upstream pauses: the client has each event before the upstream
// sends the next.
func TestStreamsArePassedOn(t *testing.T) {
	s := &streamer{make(chan string)}
	upstreams, cases := s.listen(t), streamCases()
	follow := func(t *testing.T, cases []streamCase, client *http.Client) {
		for _, c := range cases {
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			err := s.follow(t, ctx, c, client)
			if cancel(); err != nil {
				t.Fatalf("%s: %v", c.path(), err)
			}
		}
	}
	t.Run("nginx", func(t *testing.T) {
		cases := slices.DeleteFunc(slices.Clone(cases), func(c streamCase) bool {
			return c.isHeldByNginx() || slices.Contains([]string{"http2", "bound"}, c.upstream) ||
				slices.Contains([]string{"br", "zstd"}, c.filter)
		})
		nginx, _ := serveNginx(t, streamOuter, streamBlock(cases, upstreams))
		follow(t, cases, nginx.client)
	})
	handler := func(t *testing.T) *front.Handler {
		return confFront(t, streamOuter, streamBlock(cases, upstreams), handlers{"streamer": s.ServeHTTP})
	}
	t.Run("tare", func(t *testing.T) { follow(t, cases, serveByTare(t, handler(t)).client) })
	few := slices.DeleteFunc(slices.Clone(cases), func(c streamCase) bool {
		return !slices.Contains([]string{"chunked", "length", "bound"}, c.upstream) ||
			!slices.Contains([]string{"none", "gzip", "sub", "cache"}, c.filter)
	})
	t.Run("net/http", func(t *testing.T) { follow(t, few, serveHandler(t, handler(t)).client) })
	t.Run("HTTP/2", func(t *testing.T) {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		us := serveByTare(t, handler(t))
		us.client.Transport.(*http.Transport).Protocols = protocols
		follow(t, few, us.client)
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		us := serveByTare(t, handler(t))
		few := slices.DeleteFunc(slices.Clone(few), func(c streamCase) bool { return c.filter == "gzip" })
		follow(t, few, &http.Client{Transport: http10Transport(us.socket)})
	})
}

// http10Transport sends requests by HTTP/1.0 to a unix socket.
type http10Transport string

func (socket http10Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	nc, err := net.Dial("unix", string(socket))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(r.Context(), func() { nc.Close() })
	if _, err := fmt.Fprintf(nc, "GET %s HTTP/1.0\r\nHost: front.test\r\n\r\n", r.URL.Path); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(nc), r)
}
