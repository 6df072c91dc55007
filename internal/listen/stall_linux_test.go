package listen

import (
	"net"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A client that reads nothing is disconnected.
func TestStallClosesUnreadConnection(t *testing.T) {
	ls := testkit.Value(All([]Spec{{"tcp", "127.0.0.1:0"}}, Options{Stall: 300 * time.Millisecond}, new(Passed)))(t)
	defer ls[0].Close()
	client := testkit.Value(net.Dial("tcp", ls[0].Addr().String()))(t)
	defer client.Close()
	server, err := ls[0].Accept()
	testkit.Must(t, err)
	defer server.Close()
	testkit.Must(t, server.SetWriteDeadline(time.Now().Add(30*time.Second)))
	began := time.Now()
	for b := make([]byte, 1<<20); err == nil; {
		_, err = server.Write(b)
	}
	if e, ok := err.(net.Error); ok && time.Since(began) >= 30*time.Second { //nolint:errorlint // is it the deadline
		t.Errorf("only the deadline ended it: %v", e)
	}
}
