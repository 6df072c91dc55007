package front_test

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// attemptUpstreams are the addresses of upstreams that fail, by the way in which they do.
type attemptUpstreams struct {
	addrs   map[string]string
	arrived chan struct{} // receives when a silent upstream has received something
	resume  chan struct{} // lets the upstream that resets its connections continue
}

func startAttemptUpstreams(t *testing.T) *attemptUpstreams {
	u := &attemptUpstreams{arrived: make(chan struct{}, 1), resume: make(chan struct{})}
	responding := func(text string) string {
		return testkit.ServeTCP(t, func(nc net.Conn) {
			if _, err := nc.Read(make([]byte, 4<<10)); err == nil {
				_, _ = io.WriteString(nc, text)
			}
		})
	}
	u.addrs = map[string]string{
		"ok":      responding("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
		"busy":    responding("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"),
		"missing": responding("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
		"half":    responding("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
		"field":   responding("HTTP/1.1 200 OK\r\nno field\r\n\r\n"),
		"cut":     responding("HTTP/1.1 200 OK\r\nContent-Le"),
		"closing": responding(""),
		"silent": testkit.ServeTCP(t, func(nc net.Conn) {
			if _, err := nc.Read(make([]byte, 4<<10)); err == nil {
				select {
				case u.arrived <- struct{}{}:
				default: // nobody waits
				}
				_, _ = io.Copy(io.Discard, nc)
			}
		}),
		"reset": testkit.ServeTCP(t, func(nc net.Conn) {
			if _, err := nc.Read(make([]byte, 4<<10)); err == nil {
				_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
				<-u.resume
				_ = nc.(*net.TCPConn).SetLinger(0)
			}
		}),
		"refusing": "127.0.0.1:1", "refusing2": "127.0.0.1:2", "full": fullPort(t),
	}
	return u
}

// fullPort returns an address to which no more connections can be opened: the queue of its listener
// is full.
func fullPort(t *testing.T) string {
	t.Helper()
	fd := testkit.Value(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { syscall.Close(fd) })
	testkit.Must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name := testkit.Value(syscall.Getsockname(fd))(t)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	testkit.Must(t, syscall.Listen(fd, 0))
	for {
		nc, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { nc.Close() })
	}
}

// attemptCase is a request to a group of upstreams. then is what follows when a silent upstream has
// received something: bytes, or "leave". "reset" lets the upstream reset the connection, and
// "leave at once" waits for nothing.
type attemptCase struct{ servers, settings, request, then string }

func attemptCases() []attemptCase {
	const get, post = "GET URI HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "POST URI HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
	const chunked = "POST URI HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	const unbuffered = "proxy_request_buffering off;"
	const all = "proxy_next_upstream error timeout invalid_header http_503 http_404 non_idempotent;"
	cases := []attemptCase{
		{"reset", "proxy_buffering off;", get, "reset"},
		{"silent", "", get, "leave"},
		{"silent", "proxy_ignore_client_abort on;", get, "leave"},
		{"silent", "", post + "ab", "leave at once"},
		{"silent", unbuffered, post + "ab", "leave"},
		{"silent", unbuffered, post + "hello", "leave"},
		{"silent", unbuffered, chunked + "5\r\nhello\r\n", "leave"},
		{"silent", unbuffered, chunked + "5\r\nhello\r\n", "zz\r\n"},
		{"silent", unbuffered, chunked + "zz\r\n", ""},
		{"silent", unbuffered + " client_max_body_size 2;", chunked + "5\r\nhello\r\n", ""},
		{"silent", unbuffered + " client_body_timeout 300ms;", post + "ab", ""},
		{"silent", "client_body_timeout 300ms;", post + "ab", ""},
		{"silent", unbuffered + " client_max_body_size 6;", chunked + "5\r\nhello\r\n", "5\r\nhello\r\n"},
	}
	for _, servers := range []string{
		"ok", "half", "field", "cut", "closing", "silent", "refusing", "full",
		"refusing,ok", "closing,ok", "field,ok", "cut,ok", "silent,ok", "full,ok", "busy,ok", "missing,ok", "half,ok",
		"refusing,refusing2", "closing,refusing", "refusing,closing,ok", "busy,missing,ok", "refusing,closing,silent",
	} {
		cases = append(cases, attemptCase{servers, "", get, ""})
		if !strings.Contains(servers, ",") {
			continue
		}
		cases = append(cases, attemptCase{servers, unbuffered, chunked + "5\r\nhello\r\n0\r\n\r\n", ""})
		if waits(servers) {
			continue // each takes the time of a timeout
		}
		cases = append(cases, attemptCase{servers, "proxy_next_upstream off;", get, ""},
			attemptCase{servers, all, get, ""}, attemptCase{servers, all, post + "hello", ""},
			attemptCase{servers, all + " proxy_next_upstream_tries 2;", get, ""},
			attemptCase{servers, "", post + "hello", ""})
	}
	return cases
}

// waits reports whether the servers of a case reach a timeout.
func waits(servers string) bool {
	return strings.Contains(servers, "silent") || strings.Contains(servers, "full")
}

// What $status and the variables of upstreams have in a log when a client, an upstream or several
// of them fail is what nginx logs.
func TestFailedAttemptsAreLoggedAsByNginx(t *testing.T) {
	u, cases := startAttemptUpstreams(t), attemptCases()
	logged := func(start func(outer, block string) string) map[string]string {
		name := filepath.Join(t.TempDir(), "log")
		outer, block := attemptConf(u, cases, name)
		socket := start(outer, block)
		send := func(i int) { u.send(t, socket, fmt.Sprintf("/%d/", i), &cases[i]) }
		var others sync.WaitGroup // those that end by themselves, some after a timeout
		for i := range cases {
			if cases[i].then != "" {
				send(i)
			}
		}
		for i := range cases {
			if cases[i].then == "" {
				others.Go(func() { send(i) })
			}
		}
		others.Wait()
		return readAttempts(t, name, len(cases))
	}
	theirs := logged(func(outer, block string) string {
		_, dir := serveNginx(t, outer, block)
		return filepath.Join(dir, "s")
	})
	ours := logged(func(outer, block string) string { return serveByTare(t, confFront(t, outer, block, nil)).socket })
	for i, c := range cases {
		uri := fmt.Sprintf("/%d/", i)
		if got, want := ours[uri], theirs[uri]; got != want || want == "" {
			t.Errorf("%+v\n nginx: %s\n  tare: %s", c, want, got)
		}
	}
}

// attemptConf returns a configuration with a location and a group of upstreams for each case, whose
// failures the others do not see.
func attemptConf(u *attemptUpstreams, cases []attemptCase, log string) (outer, block string) {
	outer = `log_format attempt '$request_uri $status $upstream_addr $upstream_status $upstream_connect_time '
		'$upstream_header_time $upstream_response_time $upstream_response_length $upstream_bytes_sent '
		'$upstream_bytes_received';`
	block = "access_log " + log + ` attempt; proxy_http_version 1.1; `
	for i, c := range cases {
		outer += fmt.Sprintf("upstream group%d {", i)
		for kind := range strings.SplitSeq(c.servers, ",") {
			outer += " server " + u.addrs[kind] + ";"
		}
		outer += " }\n"
		block += fmt.Sprintf("location /%d/ { proxy_pass http://group%d; %s ", i, i, c.settings)
		if waits(c.servers) && (c.then != "leave" || strings.Contains(c.settings, "abort")) {
			block += "proxy_read_timeout 2s; proxy_connect_timeout 2s; "
		}
		block += "}\n"
	}
	return outer, block
}

// send sends the request of a case, and does what follows.
func (u *attemptUpstreams) send(t *testing.T, socket, uri string, c *attemptCase) {
	t.Helper()
	select {
	case <-u.arrived: // of a case before
	default:
	}
	nc := dial(t, "unix", socket, strings.Replace(c.request, "URI", uri, 1))
	defer nc.Close()
	switch c.then {
	case "leave at once":
		return
	case "reset":
		awaitText(t, nc, "half")
		u.resume <- struct{}{}
	case "":
	default:
		<-u.arrived
		if c.then == "leave" {
			return
		}
		testkit.Send(t, nc, c.then)
	}
	_, _ = io.Copy(io.Discard, nc) // the response may be cut off
}

// awaitText reads until the received bytes end in text.
func awaitText(t *testing.T, from io.Reader, text string) {
	t.Helper()
	var got []byte
	for b := make([]byte, 4<<10); !strings.HasSuffix(string(got), text); {
		n := testkit.Value(from.Read(b))(t)
		got = append(got, b[:n]...)
	}
}

// readAttempts waits for the lines of a log, and returns them without times, by their URIs.
func readAttempts(t *testing.T, name string, lines int) map[string]string {
	t.Helper()
	times := regexp.MustCompile(`\b\d+\.\d{3}\b`)
	found := make(map[string]string)
	for _, line := range awaitLines(t, name, lines) {
		uri, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[uri] = times.ReplaceAllString(rest, "TIME")
	}
	return found
}
