package http1

import (
	"strings"
	"testing"
)

func TestConnectionFieldsAndPlainNames(t *testing.T) {
	for name, want := range map[string]bool{
		"Connection": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Te": true, "Upgrade": true,
		"Content-Length": false, "Authorization": false, "Host": false, "Expect": false,
	} {
		if got := ConcernsConnection(name); got != want {
			t.Errorf("%s concerns the connection: %v", name, got)
		}
	}
	for name, want := range map[string]bool{"X-Real-Ip": true, "": true, "x9": true, "X_Real_Ip": false,
		"X.Real.Ip": false, "Ä": false, "a b": false} {
		if got := PlainName(name); got != want {
			t.Errorf("%q is plain: %v", name, got)
		}
	}
}

// ConcernsConnection of a field is that of its name.
func TestFieldsOfHeadsConcernTheConnection(t *testing.T) {
	for _, name := range append([]string{"Proxy-Connection", "X-A"}, names[1:]...) {
		head := []byte(strings.ToLower(name))
		f := Field{Name: spanOf(0, len(head)), Known: LookupName(head)}
		if got := f.ConcernsConnection(head); got != ConcernsConnection(name) {
			t.Errorf("%s concerns the connection: %v", name, got)
		}
	}
}
