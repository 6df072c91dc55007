package server

import (
	"testing"
	"time"
)

// Together with the timeout of its acknowledgment, a PING limits the time for HEADERS like
// client_header_timeout, within bounds.
func TestPingIntervalBoundsHeaders(t *testing.T) {
	for header, want := range map[time.Duration]time.Duration{
		0: 75 * time.Second, time.Second: 30 * time.Second, 40 * time.Second: 40 * time.Second,
		time.Minute: time.Minute, time.Hour: 75 * time.Second,
	} {
		if got := pingInterval(header) + pingTimeout; got != want {
			t.Errorf("%v: %v, want %v", header, got, want)
		}
	}
}
