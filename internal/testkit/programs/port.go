package programs

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
)

// These ports are for programs that cannot inherit a listener. They are below the system's
// ephemeral ports, so the kernel assigns none of them between choice and use.
const (
	firstPort = 21_000
	portCount = 11_000
)

// FreeAddress returns an unused address.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return FreeAddresses(t, 1)[0]
}

// FreeAddresses returns different unused addresses. Concurrent tests may call it: the ports are
// random.
func FreeAddresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for range 100 * n {
		if address, ok := reserve(t, firstPort+rand.IntN(portCount)); ok {
			all = append(all, address)
		}
		if len(all) == n {
			return all
		}
	}
	t.Fatal("no free ports")
	return nil
}

// reserve returns the address of a port that is unused, unless a test that still runs, of any
// binary, has reserved it. The program of such a test may not listen yet.
func reserve(t testing.TB, port int) (address string, ok bool) {
	t.Helper()
	if runtime.GOOS == "linux" {
		// An abstract unix socket has no file, belongs to the network namespace as ports do, and
		// ends with its process. The lab claims ports by the same names.
		claim, err := net.Listen("unix", fmt.Sprintf("@tare-port-%d", port))
		if err != nil {
			return "", false
		}
		defer func() {
			if !ok {
				claim.Close()
				return
			}
			t.Cleanup(func() { claim.Close() })
		}()
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", false
	}
	l.Close()
	return address, true
}
