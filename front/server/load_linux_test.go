package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// The test has fewSlow clients; with TARE_SLOW it has manySlow: the descriptors of a process limit
// them, because some also have a temporary file.
const (
	fewSlow  = 200
	manySlow = 10000
	// slots is how many requests the application serves at the same time.
	slots = 8
	// Half of the slow clients have a body that fits the buffers, the others have one in a file.
	smallBody, largeBody = 8 << 10, 200 << 10
	// maxMemory is what the server may have for each slow client, in memory.
	maxMemory = 80 << 10
)

const slowConf = `pid DIR/pid;
events {}
http {
	access_log off; send_timeout 1h; client_body_timeout 1h; proxy_read_timeout 1h;
	upstream small { server unix:DIR/app; keepalive 8; }
	proxy_http_version 1.1; proxy_set_header Connection "";
	server { listen HOST:8000; location / { proxy_pass http://small; } }
}
`

// application serves few requests at the same time.
type application struct {
	slots           chan struct{}
	reads, received atomic.Int64 // responses that were sent, and uploads
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	switch n, _ := strconv.Atoi(r.URL.RawQuery); r.URL.Path {
	case "/read":
		w.Header().Set("Content-Length", r.URL.RawQuery)
		if _, err := io.WriteString(w, strings.Repeat("x", n)); err == nil {
			a.reads.Add(1)
		}
	case "/upload":
		a.received.Add(1)
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b), strings.Trim(string(b), "x"), err)
	default:
		_, _ = io.WriteString(w, "quick")
	}
}

// slowSite is a server with n slow clients.
type slowSite struct {
	*site
	n int
}

// Slow readers and slow uploaders hold neither the application nor quick clients, and their bodies
// are in memory up to a limit, and in files.
func TestSlowClientsHoldNothing(t *testing.T) {
	s := &slowSite{newSiteWith(t, slowConf, time.Hour), fewSlow}
	if testkit.Slow() {
		s.n = manySlow
	}
	app := &application{slots: make(chan struct{}, slots)}
	l := testkit.Value(net.Listen("unix", s.Path("app")))(t)
	testkit.Must(t, os.Chmod(s.Path("app"), 0o777))
	upstream := &http.Server{Handler: app}
	go func() { _ = upstream.Serve(l) }()
	t.Cleanup(func() { upstream.Close() })

	clients := make([]*slowClient, s.n)
	s.each(func(i, size int) error {
		c, err := s.connect()
		if err == nil {
			_, err = fmt.Fprintf(c, "GET /read?%d HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n", size)
		}
		if clients[i] = c; err == nil {
			_, err = c.in.Peek(1)
		}
		return err
	})
	testkit.WaitFor(s, "the application to serve all readers", func() bool { return app.reads.Load() >= int64(s.n) })
	s.check("slow readers")
	s.each(func(i, size int) error { return clients[i].finish(strings.Repeat("x", size)) })

	s.each(func(i, size int) error {
		c, err := s.connect()
		if err == nil {
			_, err = fmt.Fprintf(c, "POST /upload HTTP/1.1\r\nHost: host\r\nConnection: close\r\n"+
				"Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size/2))
		}
		clients[i] = c
		return err
	})
	testkit.WaitFor(s, "the server to receive all uploads",
		func() bool { return s.fileBytes() >= int64(s.n/2)*largeBody/4 })
	s.check("slow uploaders")
	testkit.Equal(t, app.received.Load(), 0, "incomplete uploads that the application has received")
	s.each(func(i, size int) error {
		_, err := io.WriteString(clients[i], strings.Repeat("x", size/2))
		if err == nil {
			err = clients[i].finish(fmt.Sprint(size, "<nil>"))
		}
		return err
	})
	testkit.WaitFor(s, "the files to be removed", func() bool { return s.fileBytes() == 0 })
	s.end()
}

// check checks quick clients, memory and files while clients are slow.
func (s *slowSite) check(what string) {
	s.Helper()
	c := &upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"}
	defer c.Close()
	for range 1000 {
		if _, err := c.Request("/", "quick"); err != nil {
			s.Fatalf("%s: a quick request: %v", what, err)
		}
	}
	memory, files := s.memory(), s.fileBytes()
	s.Logf("%d %s: %d KB of memory, %d MB in files", s.n, what, memory>>10, files>>20)
	const base = 100 << 20 // a server without clients; few clients need less than that varies
	if s.n == manySlow && memory > base+int64(s.n)*maxMemory {
		s.Errorf("%d bytes of memory", memory)
	}
	testkit.Between(s, files, 0, int64(s.n/2)*(largeBody+4096), "bytes in files")
}

// memory returns the resident memory of the server.
func (s *slowSite) memory() int64 {
	s.Helper()
	status := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())))(s)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb := testkit.Value(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(s)
	return kb << 10
}

// fileBytes returns the size of the server's temporary files.
func (s *slowSite) fileBytes() (sum int64) {
	s.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.PID())
	all := testkit.Value(os.ReadDir(dir))(s)
	for _, e := range all {
		info, err := os.Stat(dir + "/" + e.Name())
		name, _ := os.Readlink(dir + "/" + e.Name())
		if err == nil && info.Mode().IsRegular() && strings.Contains(name, "(deleted)") {
			sum += info.Size()
		}
	}
	return sum
}

// slowClient is a client that stops in the middle of a body.
type slowClient struct {
	net.Conn
	in *bufio.Reader
}

// connect opens a connection with small buffers.
func (s *slowSite) connect() (*slowClient, error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
	}}
	c, err := dialer.DialContext(s.Context(), "tcp", s.host+":8000")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { c.Close() })
	return &slowClient{c, bufio.NewReaderSize(c, 64)}, nil
}

// finish reads the response.
func (c *slowClient) finish(body string) error {
	defer c.Close()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || string(b) != body) {
		err = fmt.Errorf("%s, %d bytes, want %d", resp.Status, len(b), len(body))
	}
	return err
}

// each calls a function for each client and the size of its body, for some at the same time.
func (s *slowSite) each(f func(i, size int) error) {
	s.Helper()
	const workers = 32
	var next atomic.Int64
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < s.n && !s.Failed(); i = int(next.Add(1)) - 1 {
				if err := f(i, []int{smallBody, largeBody}[i%2]); err != nil {
					s.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	running.Wait()
	if s.Failed() {
		s.FailNow()
	}
}

// load starts clients of all kinds. The requests of one of them do not appear in the access log.
func (s *site) load() (all *upgrades.Load, websocket *tunnel) {
	all = s.Load()
	for n, path := range []string{"/", "/fcgi"} {
		for i, c := range []upgrades.Client{
			&upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"},
			&upgrades.RawClient{Network: "tcp", Address: s.host + ":8001", Once: true},
			&upgrades.RawClient{Network: "unix", Address: s.Path("socket")},
			&upgrades.HTTP2Client{Address: s.host + ":8443"},
			&http3Client{address: s.host + ":8443", canceled: &s.canceled},
			&http3Client{address: s.host + ":8443", canceled: &s.canceled, once: true},
		} {
			all.Add(c, fmt.Sprintf("%s?%d.%d.", path, i, n), "text ")
		}
	}
	websocket = &tunnel{address: s.host + ":8000"}
	all.Add(websocket, "/websocket", "text ")
	return all, websocket
}

// http3Client sends POST requests over HTTP/3. It repeats those that the server reports as not
// accepted, and, with another target, those that quic-go cancels: if GOAWAY arrives just when a
// request begins, its client closes the connection.
type http3Client struct {
	address   string
	once      bool          // a new connection for each request
	canceled  *atomic.Int64 // counts the requests that quic-go cancels
	transport *http3.Transport
}

func (h *http3Client) Close() {
	if h.transport != nil {
		h.transport.Close()
		h.transport = nil
	}
}

func (h *http3Client) Request(uri, text string) (pid string, err error) {
	if h.transport == nil {
		h.transport = &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	if h.once {
		defer h.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upgrades.Patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+h.address+uri, strings.NewReader(text))
		if err != nil {
			return "", err
		}
		resp, err := h.transport.RoundTrip(req)
		// The Transport repeats a rejected request once. It may cross two upgrades.
		switch e, ok := errors.AsType[*http3.Error](err); {
		case ok && e.ErrorCode == http3.ErrCodeRequestRejected:
			continue
		case ok && !e.Remote && e.ErrorCode == http3.ErrCodeNoError:
			h.canceled.Add(1)
			uri += "."
			continue
		case err != nil:
			return "", err
		}
		if resp.ProtoMajor != 3 {
			resp.Body.Close()
			return "", fmt.Errorf("%s", resp.Proto)
		}
		return upgrades.CheckEcho(resp, text)
	}
}

// tunnel is a client of a websocket. Each request is a line; a connection has tunnelLines of them.
type tunnel struct {
	address  string
	requests atomic.Int64
	c        net.Conn
	in       *bufio.Reader
}

const tunnelLines = 100

func (w *tunnel) Close() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

func (w *tunnel) Request(uri, text string) (pid string, err error) {
	if w.c == nil {
		if err := w.open(uri); err != nil {
			return "", err
		}
	}
	if err := w.c.SetDeadline(time.Now().Add(upgrades.Patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(w.c, text); err != nil {
		return "", err
	}
	if line, err := w.in.ReadString('\n'); err != nil || line != text+"\n" {
		return "", fmt.Errorf("%q, %w", line, err)
	}
	if w.requests.Add(1)%tunnelLines == 0 {
		w.Close()
	}
	return "", nil
}

func (w *tunnel) open(uri string) (err error) {
	if w.c, err = net.Dial("tcp", w.address); err != nil {
		return err
	}
	w.in = bufio.NewReader(w.c)
	fmt.Fprintf(w.c, "GET %s HTTP/1.1\r\nHost: host\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n", uri)
	resp, err := http.ReadResponse(w.in, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s", resp.Status)
	}
	return err
}
