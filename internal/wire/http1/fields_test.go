package http1

import "testing"

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

func TestFieldsOfHeadsConcernTheConnection(t *testing.T) {
	head := []byte("HTTP/1.1 200 OK\r\nkeep-alive: 1\r\nPROXY-Connection: 2\r\nX-A: 3\r\nte: 4\r\nServer: 5\r\nUpgrade: 6\r\n\r\n")
	var r Response
	if complete, err := r.Parse(head, Limits{Bytes: 1 << 10, Fields: 10}); !complete || err != nil {
		t.Fatal(complete, err)
	}
	for i, want := range []bool{true, true, false, true, false, true} {
		if got := r.Fields[i].ConcernsConnection(head); got != want {
			t.Errorf("%s concerns the connection: %v", r.Fields[i].Name.In(head), got)
		}
	}
}
