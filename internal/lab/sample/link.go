package sample

import (
	"fmt"
	"time"
)

// Link is the network between the servers and a generator on another machine.
type Link struct {
	Host    string `json:"host"`    // the generator's
	Address string `json:"address"` // on which the servers listen
	// RoundTrip is the median time of a request and its response, without other load, ShortestTrip
	// the shortest.
	RoundTrip    time.Duration `json:"roundTripNs"`
	ShortestTrip time.Duration `json:"shortestTripNs"`
	// ToServers and FromServers are the bandwidths that HTTP reached, in bytes per second.
	ToServers   float64 `json:"toServersPerSecond"`
	FromServers float64 `json:"fromServersPerSecond"`
}

// Text describes the link.
func (l *Link) Text() string {
	return fmt.Sprintf("The generator runs on %s and the servers listen on %s. A round trip takes %v (shortest %v). The network carries %s to the servers and %s from them.",
		l.Host, l.Address, l.RoundTrip.Round(time.Microsecond), l.ShortestTrip.Round(time.Microsecond),
		bits(l.ToServers), bits(l.FromServers))
}

func bits(bytesPerSecond float64) string {
	const mega, giga = 1e6, 1e9
	if b := 8 * bytesPerSecond; b < giga {
		return fmt.Sprintf("%.0f Mbit/s", b/mega)
	}
	return fmt.Sprintf("%.1f Gbit/s", 8*bytesPerSecond/giga)
}
