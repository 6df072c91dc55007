package upstream

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// A group has at most maxServers addresses.
func TestGroupIsLimitedToMaxServers(t *testing.T) {
	for n, want := range map[int]bool{maxServers: true, maxServers + 1: false} {
		var c conf.Upstream
		for i := range n {
			c.Servers = append(c.Servers, conf.Server{Addr: fmt.Sprintf("127.%d.%d.%d:80", 1+i>>16, i>>8&0xff, i&0xff)})
		}
		g, err := New(c, new(State), Options{})
		if (err == nil) != want {
			t.Errorf("%d servers: %v", n, err)
		}
		if err == nil {
			g.Close()
		}
	}
}
