package programs

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// These ports are for programs that cannot inherit a listener. They are below the system's
// ephemeral ports, so the kernel assigns none of them between choice and use.
const (
	firstPort = 21_000
	portCount = 11_000
)

// FreeAddress returns an unused address. Concurrent test binaries start their search at different
// ports.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for i := range portCount {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+(os.Getpid()*97+i)%portCount))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}
