//go:build !linux

package listen

import (
	"net"
	"time"
)

func limitStalls(*net.TCPListener, time.Duration) error { return nil }
