//go:build unix

package engine

import (
	"math"
	"strconv"
	"syscall"
)

// maxConnections is the value of FCGI_MAX_CONNS, and of FCGI_MAX_REQS as a connection carries one
// request at a time. The process's limit on descriptors is the only bound. It is "" if unknown.
func maxConnections() string {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ""
	}
	return strconv.FormatUint(min(uint64(limit.Cur), math.MaxInt32), 10)
}
