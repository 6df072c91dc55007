package server_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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
	// quickRequests is how many requests of a quick client are timed.
	quickRequests = 1000
	// Half of the slow clients have a body that fits the buffers, the others have one in a file.
	smallBody, largeBody = 8 << 10, 200 << 10
	// maxMemory is what the server may have for each slow client, in memory.
	maxMemory = 80 << 10
	// connectAtOnce is how many connections are opened at the same time.
	connectAtOnce = 32
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
	reads, uploads  atomic.Int64 // complete ones
	uploadsReceived atomic.Int64 // begun
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	switch r.URL.Path {
	case "/read":
		n, _ := strconv.Atoi(r.URL.RawQuery)
		w.Header().Set("Content-Length", strconv.Itoa(n))
		if _, err := io.Copy(w, io.LimitReader(letters{}, int64(n))); err == nil {
			a.reads.Add(1)
		}
	case "/upload":
		a.uploadsReceived.Add(1)
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err == nil {
			a.uploads.Add(1)
		}
		_, _ = io.WriteString(w, hex.EncodeToString(sum.Sum(nil)))
	default:
		_, _ = io.WriteString(w, "quick")
	}
}

// letters is an endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// slowSite is a server with slow clients.
type slowSite struct {
	*site
	app *application
}

// Slow readers and slow uploaders hold neither the application nor quick clients, and their bodies
// are in memory up to a limit, and in files.
func TestSlowClientsHoldNothing(t *testing.T) {
	n := fewSlow
	if os.Getenv("TARE_SLOW") != "" {
		n = manySlow
	}
	app := &application{slots: make(chan struct{}, slots)}
	s := &slowSite{newSiteWith(t, slowConf, time.Hour), app}
	l, err := net.Listen("unix", s.Path("app"))
	testkit.Must(t, err)
	testkit.Must(t, os.Chmod(s.Path("app"), 0o777))
	upstream := &http.Server{Handler: app}
	go func() { _ = upstream.Serve(l) }()
	t.Cleanup(func() {
		t.Logf("the application has served %d readers and %d uploaders, and serves %d requests", app.reads.Load(),
			app.uploads.Load(), len(app.slots))
		upstream.Close()
	})
	alone := s.quick("without slow clients")

	readers := s.connectAll(n, func(i int, c *slowClient) error { return c.startReading(sizeOf(i)) })
	s.Eventually("the application has served all readers", func() bool {
		return app.reads.Load() >= int64(n)
	})
	s.check(n, alone, "slow readers")
	s.each(readers, func(i int, c *slowClient) error { return c.finishReading(sizeOf(i)) })

	uploaders := s.connectAll(n, func(i int, c *slowClient) error { return c.startUploading(sizeOf(i)) })
	s.Eventually("the server has received all uploads", func() bool { return s.fileBytes() >= int64(n/2)*largeBody/4 })
	s.check(n, alone, "slow uploaders")
	if n := app.uploadsReceived.Load(); n > 0 {
		t.Errorf("the application has received %d incomplete uploads", n)
	}
	s.each(uploaders, func(i int, c *slowClient) error { return c.finishUploading(sizeOf(i)) })
	if got := app.uploads.Load(); got != int64(n) {
		t.Errorf("%d uploads are complete, want %d", got, n)
	}
	s.Eventually("the files are removed", func() bool { return s.fileBytes() == 0 })
	s.end()
}

func sizeOf(i int) int {
	if i%2 == 0 {
		return smallBody
	}
	return largeBody
}

// check checks quick clients, memory and files while n clients are slow.
func (s *slowSite) check(n int, alone time.Duration, what string) {
	s.Helper()
	p99 := s.quick(what)
	memory, files := s.memory(), s.fileBytes()
	s.Logf("%d %s: %d KB of memory, %d MB in files; 99th percentile of quick clients %v, without slow ones %v", n,
		what, memory>>10, files>>20, p99, alone)
	const base = 100 << 20 // a server without clients; few clients need less than that varies
	if n == manySlow && memory > base+int64(n)*maxMemory {
		s.Errorf("%d bytes of memory", memory)
	}
	if most := int64(n/2) * (largeBody + 4096); files > most {
		s.Errorf("%d bytes in files, want at most %d", files, most)
	}
}

// quick sends requests of a quick client, and returns the 99th percentile of their times.
func (s *slowSite) quick(when string) time.Duration {
	s.Helper()
	c := &upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"}
	defer c.Close()
	var times []time.Duration
	for range quickRequests {
		began := time.Now()
		if _, err := c.Request("/", "quick"); err != nil {
			s.Fatalf("%s: a quick request: %v", when, err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// memory returns the resident memory of the server.
func (s *slowSite) memory() int64 {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	testkit.Must(s, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	testkit.Must(s, err)
	return kb << 10
}

// fileBytes returns the size of the server's temporary files.
func (s *slowSite) fileBytes() (sum int64) {
	s.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.PID())
	all, err := os.ReadDir(dir)
	testkit.Must(s, err)
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
	in  *bufio.Reader
	sum hash.Hash
}

// connectAll opens connections with small buffers, and starts a client on each.
func (s *slowSite) connectAll(n int, start func(i int, c *slowClient) error) []*slowClient {
	s.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
	}}
	all := make([]*slowClient, n)
	s.each(all, func(i int, _ *slowClient) error {
		c, err := dialer.DialContext(s.Context(), "tcp", s.host+":8000")
		if err != nil {
			return err
		}
		s.Cleanup(func() { c.Close() })
		all[i] = &slowClient{Conn: c, in: bufio.NewReaderSize(c, 64), sum: sha256.New()}
		return start(i, all[i])
	})
	return all
}

// each calls a function for all clients, some at the same time.
func (s *slowSite) each(all []*slowClient, f func(i int, c *slowClient) error) {
	s.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for range connectAtOnce {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all) && !s.Failed(); i = int(next.Add(1)) - 1 {
				if err := f(i, all[i]); err != nil {
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

// startReading reads the first byte of a response.
func (c *slowClient) startReading(size int) error {
	_, err := fmt.Fprintf(c, "GET /read?%d HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n", size)
	const status = "HTTP/1.1 200"
	var b []byte
	if err == nil {
		b, err = c.in.Peek(len(status))
	}
	if err == nil && string(b) != status {
		err = fmt.Errorf("%q", b)
	}
	return err
}

// finishReading reads the rest.
func (c *slowClient) finishReading(size int) error {
	defer c.Close()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%s, %d bytes, want %d", resp.Status, n, size)
	}
	return err
}

// startUploading sends the first half of a body.
func (c *slowClient) startUploading(size int) error {
	_, err := fmt.Fprintf(c, "POST /upload HTTP/1.1\r\nHost: host\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
		size)
	if err == nil {
		err = c.send(size / 2)
	}
	return err
}

func (c *slowClient) send(n int) error {
	_, err := io.Copy(io.MultiWriter(c.Conn, c.sum), io.LimitReader(letters{}, int64(n)))
	return err
}

// finishUploading sends the rest, and checks that the application has received all of it.
func (c *slowClient) finishUploading(size int) error {
	defer c.Close()
	if err := c.send(size - size/2); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(resp.Body)
	if want := hex.EncodeToString(c.sum.Sum(nil)); err == nil && string(b) != want {
		err = fmt.Errorf("%s: the application has received %s, want %s", resp.Status, b, want)
	}
	return err
}
