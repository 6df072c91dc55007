package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// longAgent makes log lines long, so that few requests fill the log.
var longAgent = strings.Repeat("x", 4000)

// enough is the number of requests that fill two queues and a pipe with lines of longAgent.
const enough = 700

// flood sends requests, all of which must have a response.
func flood(t *testing.T, c *http.Client, url string, n int) {
	t.Helper()
	for range n {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		testkit.Must(t, err)
		req.Header.Set("User-Agent", longAgent)
		resp, err := c.Do(req)
		testkit.Must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
	}
}

// A pipe without a reader loses only lines. A later reader learns how many.
func TestUnreadPipeLosesOnlyLogLines(t *testing.T) {
	t.Parallel()
	dir := site(t)
	pipe := filepath.Join(filepath.Dir(dir), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--access-log", pipe, "--log-format", "json", dir)
	c, url := client(t, nil), "http://"+s.address()
	get(t, c, url, "hello")
	reader, err := os.Open(pipe)
	testkit.Must(t, err)
	defer reader.Close()
	lines := bufio.NewReader(reader)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"uri":"/"`) {
		t.Fatalf("%q, %v", line, err)
	}
	flood(t, c, url, enough)
	s.await("tare: front: .*pipe: dropping lines: the output accepts nothing")
	get(t, c, url, "hello")
	for {
		line, err := lines.ReadString('\n')
		testkit.Must(t, err)
		if strings.Contains(line, `"lost":`) {
			break
		}
	}
	s.await(`tare: front: .*pipe: writing lines again; \d+ were lost`)
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// If a log is renamed and reopened during requests, each request is in exactly one of the files.
func TestRotationLosesNoLine(t *testing.T) {
	t.Parallel()
	dir := site(t)
	log := filepath.Join(filepath.Dir(dir), "access.log")
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--access-log", log, "--log-format", "common", dir)
	c, url := client(t, nil), "http://"+s.address()
	s.await("access.log: SIGUSR1 reopens it")
	const rotations = 5
	stop, requested := make(chan struct{}), 0
	var clients sync.WaitGroup
	clients.Go(func() {
		for ; ; requested++ {
			select {
			case <-stop:
				return
			default:
			}
			resp, err := c.Get(fmt.Sprintf("%s/?request=%d.", url, requested))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		}
	})
	for i := range rotations {
		testkit.Must(t, os.Rename(log, fmt.Sprintf("%s.%d", log, i)))
		s.signal(syscall.SIGUSR1)
		awaitRepeated(t, s, "logs: reopened", i+1)
	}
	close(stop)
	clients.Wait()
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	all := read(t, log)
	for i := range rotations {
		all += read(t, fmt.Sprintf("%s.%d", log, i))
	}
	if n := strings.Count(all, "\n"); n != requested {
		t.Errorf("%d lines of %d requests", n, requested)
	}
	for i := range requested {
		if n := count(all, fmt.Sprintf("/?request=%d. HTTP/1.1\" 200 5", i)); n != 1 {
			t.Fatalf("request %d has %d lines", i, n)
		}
	}
}

// awaitRepeated waits until a text was printed a number of times.
func awaitRepeated(t *testing.T, s *served, text string, times int) {
	t.Helper()
	for deadline := time.Now().Add(patience); count(s.stderr(), text) < times; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was not printed %d times", text, times)
		}
	}
}
