package fetch_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/testkit"
)

// A local address that cannot be used fails the request, and no server: as in nginx no other is
// tried, and none counts as failed.
func TestUnusableLocalAddressIsNoFailure(t *testing.T) {
	good := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	used, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer used.Close()
	for _, local := range []string{"192.0.2.1:0", "[::1]:0", used.Addr().String()} {
		from := new(observer)
		r := request(t, from, conf.NextUpstream{Error: true}, good, closedPort(t))
		r.Local = netip.MustParseAddrPort(local)
		want := fmt.Sprintf("error %d for 500", fetch.NoServer)
		if got := fetched(t, r); got != want || len(from.statuses) != 1 {
			t.Errorf("%s: %q, statuses %v", local, got, from.statuses)
		}
		again := request(t, from, conf.NextUpstream{Error: true}, good)
		again.Group, again.Turn = r.Group, r.Group.Peers.Turn("", netip.Addr{})
		if got := fetched(t, again); got != "200 hello <nil>" {
			t.Errorf("%s: then %q", local, got)
		}
	}
}

// A text that FastCGICatchStderr names is found also if it is split between records.
func TestSplitTextInStderrIsCaught(t *testing.T) {
	record := func(kind byte, text string) string {
		return string([]byte{1, kind, 0, 1, 0, byte(len(text)), 0, 0}) + text
	}
	const stdout, stderr, end = 6, 7, 3
	rest := record(stdout, "Content-Type: text/plain\r\n\r\nhello") + record(stdout, "") +
		record(end, "\x00\x00\x00\x00\x00\x00\x00\x00")
	for want, before := range map[string]string{
		"200 hello <nil>": record(stderr, "PHP Fatal") + record(stderr, "Error"),
		fmt.Sprintf("error %d for 502", fetch.InvalidHeader): record(stderr, "PHP Fat") + record(stderr, "a") +
			record(stderr, "l error"),
	} {
		r := request(t, new(observer), conf.NextUpstream{}, rawServer(t, before+rest))
		r.Params = new(client.Params)
		r.by.IsFastCGI, r.by.CatchStderr = true, []string{"Warning", "Fatal error"}
		if got := fetched(t, r); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
}
