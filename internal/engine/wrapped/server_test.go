package tare_test

import (
	"net"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return l
}

func TestListenAndServeReturnsListenError(t *testing.T) {
	l := listen(t)
	defer l.Close()
	if err := tare.ListenAndServe(l.Addr().String(), nil); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}
