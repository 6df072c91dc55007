package engine_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/engine"
)

// countingListener counts the bytes that ReadFrom of its connections moved: the kernel may have
// copied them.
type countingListener struct {
	net.Listener
	moved *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tc, ok := c.(*net.TCPConn); ok {
		return countingConn{tc, l.moved}, nil
	}
	return c, err
}

type countingConn struct {
	*net.TCPConn
	moved *atomic.Int64
}

func (c countingConn) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		_, ok = limited.R.(syscall.Conn)
	}
	if !ok {
		return 0, errors.New("this is not what the kernel copies from")
	}
	n, err := c.TCPConn.ReadFrom(src)
	c.moved.Add(n)
	return n, err
}

// The connection's own ReadFrom sends a file, or what another connection receives, except its
// beginning.
func TestFilesAreCopiedByTheKernel(t *testing.T) {
	const size = 1 << 20
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	copyOf := func(open func() (io.ReadCloser, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			src, err := open()
			if err != nil {
				t.Error(err)
				return
			}
			defer src.Close()
			w.Header().Set("Content-Length", fmt.Sprint(size))
			if n, err := io.Copy(w, src); n != size || err != nil {
				t.Errorf("copied %d bytes, %v", n, err)
			}
		}
	}
	source, dialSource := listen(t, "tcp", "127.0.0.1:0")
	defer source.Close()
	go func() {
		for nc, err := source.Accept(); err == nil; nc, err = source.Accept() {
			_, _ = nc.Write(make([]byte, size))
			nc.Close()
		}
	}()
	for way, h := range map[string]http.HandlerFunc{
		"ServeFile": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) },
		"Copy":      copyOf(func() (io.ReadCloser, error) { return os.Open(name) }),
		"socket":    copyOf(func() (io.ReadCloser, error) { return dialSource() }),
	} {
		l, dial := listen(t, "tcp", "127.0.0.1:0")
		var moved atomic.Int64
		s := engine.New(&http.Server{Handler: h})
		served := goServe(s, countingListener{l, &moved})
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		b, err := io.ReadAll(c)
		if _, body, _ := strings.Cut(string(b), "\r\n\r\n"); err != nil || len(body) != size {
			t.Errorf("%s: got %d bytes, %v", way, len(body), err)
		}
		if got := moved.Load(); got < size-4096 {
			t.Errorf("%s: the connection moved %d bytes of %d", way, got, size)
		}
		c.Close()
		s.Close()
		<-served
	}
}

// What a socket or a pipe provides is sent at once if the response is not framed, as in net/http.
func TestPiecesOfStreamsAreSentAtOnce(t *testing.T) {
	const piece, pieces = 3000, 3
	sent := make(chan bool)
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		src, feed, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		defer src.Close()
		w.Header().Set("Content-Length", fmt.Sprint(piece*pieces))
		go func() {
			defer feed.Close()
			for range pieces {
				_, _ = feed.Write(make([]byte, piece))
				<-sent
			}
		}()
		if r.Method == http.MethodPost {
			_, err = io.Copy(w, src)
		} else {
			_, err = io.CopyN(w, src, piece*pieces)
		}
		if err != nil {
			t.Error(err)
		}
	}), func(s *site) {
		for _, request := range []string{get, post} {
			c := s.connect()
			io.WriteString(c, request)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				s.Fatal(err)
			}
			for range pieces {
				if _, err := io.ReadFull(resp.Body, make([]byte, piece)); err != nil {
					s.Fatal(err)
				}
				sent <- true
			}
		}
	})
}

// A source that is longer than the Content-Length is copied up to that, and the connection is kept,
// as with net/http of Go 1.27.
func TestCopyEndsAtContentLength(t *testing.T) {
	const content, length = 1 << 20, 100_000
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, bytes.Repeat([]byte("."), content), 0o600); err != nil {
		t.Fatal(err)
	}
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", fmt.Sprint(length))
		src, left := io.Reader(f), int64(0)
		if r.URL.Path == "/limited" {
			src = io.LimitReader(f, content)
		}
		n, err := io.Copy(w, src)
		if limited, ok := src.(*io.LimitedReader); ok {
			left = limited.N + n - content
		}
		if n != length || !errors.Is(err, http.ErrContentLength) || left < -1 || left > 0 {
			t.Errorf("%s: copied %d bytes, %v; the reader is wrong by %d", r.URL.Path, n, err, left)
		}
	}), func(s *site) {
		c := s.connect()
		for _, path := range []string{"/whole", "/limited"} {
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%s\r\n", path, host)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				s.Fatal(path, err)
			}
			if b, err := io.ReadAll(resp.Body); len(b) != length || err != nil {
				s.Errorf("%s: got %d bytes, %v", path, len(b), err)
			}
		}
	})
}

// The standard library's handlers serve files.
func TestServesFiles(t *testing.T) {
	dir := t.TempDir()
	content := strings.Repeat("0123456789abcdef", 40<<10)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/f", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/copy", func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(filepath.Join(dir, "f"))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		io.Copy(w, f)
	})
	everyMode(t, func() *http.Server { return &http.Server{Handler: mux} }, func(s *site) {
		for _, path := range []string{"/f", "/copy"} {
			if got := s.get(path); got != content {
				s.Errorf("%s: got %d bytes, want %d", path, len(got), len(content))
			}
		}
		req, _ := http.NewRequest(http.MethodGet, "http://host/f", nil)
		req.Header.Set("Range", "bytes=100000-600000")
		resp, err := s.client.Do(req)
		if err != nil {
			s.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != content[100000:600001] {
			s.Errorf("range: %d bytes, %v", len(b), err)
		}
	})
}
