package programs

import (
	"fmt"
	"math/rand/v2"
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

// FreeAddresses returns different unused addresses. Concurrent tests of a binary may call it: the
// ports are random.
func FreeAddresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for range 100 * n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)))
		if err != nil {
			continue
		}
		defer l.Close() // at the end, so that the addresses differ
		if all = append(all, l.Addr().String()); len(all) == n {
			return all
		}
	}
	t.Fatal("no free ports")
	return nil
}
