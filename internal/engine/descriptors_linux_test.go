package engine_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// fewDescriptors is the limit of descriptors of the server in
// TestIdleConnectionsMakeRoomForNewOnes.
const fewDescriptors = 64

// TestServerWithFewDescriptors is the process that TestIdleConnectionsMakeRoomForNewOnes starts.
func TestServerWithFewDescriptors(t *testing.T) {
	if os.Getenv("TARE_FEW_DESCRIPTORS") == "" {
		t.Skip("is run by TestIdleConnectionsMakeRoomForNewOnes")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE,
		&syscall.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	s := engine.New(&http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "done.")
		})})
	go s.Serve(l)
	io.Copy(io.Discard, os.Stdin) // until the other process ends
}

// When descriptors run out, the connections that have waited longest are closed for new ones.
func TestIdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	line := play(t, "TestServerWithFewDescriptors", "TARE_FEW_DESCRIPTORS=1")
	_, address, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("output of the server: %q", line)
	}
	var all []net.Conn
	for i := range 3 * fewDescriptors {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, get)
		if got := readResponses(t, c, 1); !strings.HasSuffix(got, "done.") {
			t.Fatalf("connection %d: %q", i, got)
		}
		all = append(all, c)
		time.Sleep(2 * time.Millisecond) // the kernel measures waiting in milliseconds
	}
	io.WriteString(all[len(all)-1], get)
	readResponses(t, all[len(all)-1], 1) // the last is still served
	if _, err := all[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first connection was kept")
	}
}
