//go:build unix

package engine_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// fcgiConnections returns the value of FCGI_MAX_CONNS: the limit on descriptors.
func fcgiConnections(t *testing.T) string {
	var limit syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	return strconv.FormatUint(uint64(limit.Cur), 10) //nolint:unconvert // types differ between systems
}
