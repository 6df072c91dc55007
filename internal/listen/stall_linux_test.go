package listen

import (
	"net"
	"testing"
	"time"
)

// A client that reads nothing is disconnected.
func TestStallClosesUnreadConnection(t *testing.T) {
	ls, err := All([]Spec{{"tcp", "127.0.0.1:0"}}, Options{Stall: 300 * time.Millisecond}, new(Passed))
	if err != nil {
		t.Fatal(err)
	}
	defer ls[0].Close()
	client, err := net.Dial("tcp", ls[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ls[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for b := make([]byte, 1<<20); err == nil; {
		_, err = server.Write(b)
	}
	if e, ok := err.(net.Error); ok && time.Since(began) >= 30*time.Second { //nolint:errorlint // is it the deadline
		t.Errorf("only the deadline ended it: %v", e)
	}
}
