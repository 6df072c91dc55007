//go:build unix

package fastcgi

import (
	"math"
	"strconv"
	"syscall"
)

// maxConnections returns the value of FCGI_MAX_CONNS, and of FCGI_MAX_REQS because a connection
// carries one request at a time. The only limit is the process's limit on descriptors. It returns
// "" if that is unknown.
func maxConnections() string {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ""
	}
	most := uint64(limit.Cur) //nolint:unconvert // types differ between systems
	return strconv.FormatUint(min(most, math.MaxInt32), 10)
}
