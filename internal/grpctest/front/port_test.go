package front

import (
	"net"
	"testing"
	"time"
)

// awaitPort waits until something listens at an address.
func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(callTimeout); ; time.Sleep(5 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
