package programs

import (
	"net"
	"strconv"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

// FreeAddress returns an unused address, for a program that cannot inherit a listener.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return FreeAddresses(t, 1)[0]
}

// FreeAddresses returns different unused addresses. Until the test ends, no other test of any
// binary receives them: their programs may not listen yet.
func FreeAddresses(t testing.TB, n int) (all []string) {
	t.Helper()
	var ports contender.Claims
	t.Cleanup(ports.Release)
	for range n {
		port := testkit.Value(ports.Claim())(t)
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return all
}
