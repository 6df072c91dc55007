package programs

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// Ports for programs that cannot be given a listener. They are below those that systems give out by themselves, to clients that connect
// and to listeners of port 0, so that nobody gets one between its choice and its use.
const (
	firstPort = 21_000
	portCount = 11_000
)

// FreeAddress returns an address that nobody listens on. Test binaries that run at the same time begin to look at different ports.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for i := range portCount {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+(os.Getpid()*97+i)%portCount))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
