package upstream

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

func TestStatusListsAllAddresses(t *testing.T) {
	c := conf.Upstream{Servers: append(servers("1", "2", "3", "4"), conf.Server{Addr: "127.0.0.1:5", Backup: true})}
	c.Servers[2].Down = true
	g := group(t, c, new(State), nil)
	first := g.Turn("", netip.Addr{})
	if addr, err := first.Next(); err != nil || port(addr) != "1" {
		t.Fatal(addr, err)
	}
	first.Done(true)
	second := g.Turn("", netip.Addr{})
	if addr, err := second.Next(); err != nil || port(addr) != "2" {
		t.Fatal(addr, err)
	}
	want := []Status{
		{Addr: "127.0.0.1:1", Resting: true}, {Addr: "127.0.0.1:2", Conns: 1}, {Addr: "127.0.0.1:3", Down: true},
		{Addr: "127.0.0.1:4"}, {Addr: "127.0.0.1:5", Backup: true},
	}
	if got := g.Status(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	second.Done(false)
}
