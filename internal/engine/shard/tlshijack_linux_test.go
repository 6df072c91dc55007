package shard

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
)

// What was encrypted before a hijack, and waits for room, is sent before what the handler writes.
func TestHijackSendsWaitingCiphertext(t *testing.T) {
	s := newTLSSite(t, nil)
	s.handler.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.server.group.conns.each(func(k *shardConn) {
			if _, err := k.tls.conn.Write([]byte("earlier,")); err != nil { // TrySend without room
				t.Error(err)
			}
		})
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "later")
	}))
	c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true})
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || string(b) != "earlier,later" {
		t.Errorf("received %q, %v", b, err)
	}
}
