package engine_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// TestServerThatLogsToFile is the process that TestLackOfDescriptorsIsLoggedAsByPackageNet starts.
func TestServerThatLogsToFile(t *testing.T) {
	maker, path, found := strings.Cut(os.Getenv("TARE_LOGS_TO_FILE"), ":")
	if !found {
		t.Skip("is run by TestLackOfDescriptorsIsLoggedAsByPackageNet")
	}
	logged, err := os.Create(path)
	testkit.Must(t, err)
	l := listenWithFewDescriptors(t)
	go makers[maker](&http.Server{ErrorLog: log.New(logged, "", 0)}).Serve(l)
	io.Copy(io.Discard, os.Stdin) // until the other process ends
}

// The log lines have package net's form. This server closes idle connections, so that it accepts
// between the errors, and each delay is the first one: it doubles only if Accept fails again. The
// same delay is not logged again.
func TestLackOfDescriptorsIsLoggedAsByPackageNet(t *testing.T) {
	for maker := range makers {
		t.Run(maker, func(t *testing.T) { testLackOfDescriptorsIsLogged(t, maker) })
	}
}

func testLackOfDescriptorsIsLogged(t *testing.T, maker string) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	address := playServer(t, "TestServerThatLogsToFile", "TARE_LOGS_TO_FILE="+maker+":"+path)
	for range 3 * fewDescriptors {
		c, err := net.Dial("tcp", address)
		testkit.Must(t, err)
		defer c.Close()
	}
	line := regexp.MustCompile(`^http: Accept error: accept tcp ` + regexp.QuoteMeta(address) +
		`: accept4: too many open files; retrying in (\d+)ms$`)
	var lines []string
	want := 1
	if maker == "net/http" {
		want = 6
	}
	for start := time.Now(); len(lines) < want || lines[0] == ""; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(path)
		testkit.Must(t, err)
		lines = strings.Split(strings.TrimSpace(string(b)), "\n")
		if time.Since(start) > time.Minute {
			t.Fatalf("logged: %q", b)
		}
	}
	for _, l := range lines {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("logged: %q", l)
		}
		if maker != "net/http" && len(m[1]) > 1 && m[1] != "10" {
			t.Errorf("logged: %q, although connections are accepted", l)
		}
	}
}
