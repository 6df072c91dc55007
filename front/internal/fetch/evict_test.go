package fetch_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/testkit"
)

// A client that requests one name after another displaces none that is in use.
func TestNamesInUseAreKept(t *testing.T) {
	const enough = 1000 // more than are kept of any kind
	lookup := func(context.Context, string) ([]netip.Addr, time.Duration, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, time.Hour, nil
	}
	groups := fetch.NewGroups(upstream.Options{Lookup: lookup})
	defer groups.Close()
	group := fetch.KeepAliveOf(new(conf.Upstream))
	pool := fetch.NewPool(new(conf.ProxyTLS), group, false)
	defer pool.Close()
	for kind, get := range map[string]func(n int) any{
		"groups": func(n int) any {
			return testkit.Value(groups.Group(t.Context(), fmt.Sprintf("n%d.example:80", n)))(t)
		},
		"transports": func(n int) any {
			return testkit.Value(pool.Transport(fetch.Identity{Name: fmt.Sprintf("n%d.example", n)}))(t)
		},
	} {
		used, unused := get(0), get(1)
		for n := 2; n < enough; n++ {
			if get(n); get(0) != used {
				t.Fatalf("%s: one in use was dropped after %d others", kind, n)
			}
		}
		if get(1) == unused {
			t.Errorf("%s: nothing was dropped", kind)
		}
	}
}
