package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/testkit"
)

// TestMain lets the test binary be a contender: "play ROLE PLACE".
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "play" {
		fmt.Fprintln(os.Stderr, play(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// play serves on a port or on a socket. Some roles have a fault. Except for work, a response takes a
// millisecond, so that a load leaves the processors to other tests.
func play(role, place string) error {
	network, address := "tcp", "127.0.0.1:"+place
	if filepath.IsAbs(place) {
		network, address = "unix", place
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	var requests atomic.Int64
	steps, _ := strconv.Atoi(strings.TrimPrefix(role, "works-"))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := "hello"
		switch {
		case role == "lies":
			body = "goodbye"
		case role == "dies" && requests.Add(1) > 20:
			fmt.Println("enough")
			os.Exit(9)
		case role == "allocates":
			body = strings.Clone(strings.Repeat("hello", 50_000))[:len(body)]
		case steps > 0 && work(steps) == 0:
			body = "" // never happens: it keeps the compiler from removing the work
		}
		if !strings.HasPrefix(role, "works-") {
			time.Sleep(time.Millisecond)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		io.WriteString(w, body)
	})
	switch {
	case role == "http" || role == "allocates" || strings.HasPrefix(role, "works-"):
		return http.Serve(l, handler)
	case role == "hangs-up":
		return hangUp(l)
	}
	return fcgi.Serve(l, handler)
}

// hangUp closes every connection after its first byte.
func hangUp(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = bufio.NewReader(c).ReadByte()
		c.Close()
	}
}

const byFastCGI = `title: t
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
ways: [http, tcp, unix, lies, dies, hangs-up]
differs:
  - {what: bytes, contenders: [tcp, unix, dies], why: records}
quick: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
full: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
`

// project makes a folder with an experiment of contenders that this binary plays.
func project(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, "experiments", "small", lab.ExperimentFile), byFastCGI)
	for _, c := range []struct{ name, run, more string }{
		{"http", "http {port}", "protocol: http"},
		{"allocates", "allocates {port}", "protocol: http\nruntime: Go"},
		{"tcp", "serves {port}", "protocol: fastcgi"},
		{"unix", "serves {socket}", "protocol: fastcgi"},
		{"lies", "lies {socket}", "protocol: fastcgi"},
		{"dies", "dies {socket}", "protocol: fastcgi"},
		{"hangs-up", "hangs-up {socket}", "protocol: fastcgi\nready: {within: 3s}"},
	} {
		writePlayer(t, root, c.name, c.run, c.more)
	}
	return root
}

// writePlayer writes a contender that this binary plays.
func writePlayer(t *testing.T, root, name, run, more string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(root, "contenders", name, contender.FileName),
		fmt.Sprintf("title: %s\nabout: a\nrun: %s play %s\n%s\n", name, os.Args[0], run, more))
}

// FastCGI applications are compared with one that speaks HTTP. The failure of one does not affect
// the others.
func TestWeighComparesFastCGIAndIsolatesFailures(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	run, _, err := lab.Weigh(context.Background(), lab.Options{Root: project(t), Experiment: "small"})
	testkit.Must(t, err)
	why := map[string]string{
		"lies":     `responds with body "goodbye", not "hello"`,
		"dies":     "it failed 2 times; the last failure: its application ended by itself (exit status 9); application printed: enough",
		"hangs-up": "no response after 3s: FastCGI: unexpected EOF",
	}
	for _, e := range run.Entrants {
		if want := why[e.Name]; want == "" && e.Absent != "" || !strings.HasPrefix(e.Absent, want) {
			t.Errorf("%s: left out: %q, want %q", e.Name, e.Absent, want)
		}
	}
	requests := make(map[string]uint64)
	for _, r := range run.Records {
		if r.Failure == "" {
			requests[r.Contender] += r.Load.Requests
			if n := r.Load.Errors.Total(); n > 0 || r.WeightUs() <= 0 {
				t.Errorf("%s: %d errors: %s; %v µs per request", r.Contender, n, r.Load.Errors.First, r.WeightUs())
			}
		}
	}
	for _, name := range []string{"http", "twin", "tcp", "unix"} {
		if requests[name] == 0 {
			t.Errorf("%s was not measured", name)
		}
	}
	testkit.Equal(t, len(analyze.Analyze(run).Tables[0].Rows), 5, "rows, for those four and dies")
	if left, err := proc.Children(os.Getpid()); err != nil || len(left) != 0 {
		t.Errorf("left running: %v, %v", left, err)
	}
}
