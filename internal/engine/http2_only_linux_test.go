package engine_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine"
)

// A TLS server without HTTP/1 serves HTTP/2 on shards, and no other client, as net/http does.
func TestServerOfHTTP2OnlyUsesShards(t *testing.T) {
	clients := map[string][]string{"h2": {"h2"}, "both": {"http/1.1", "h2"}, "HTTP/1.1": {"http/1.1"}, "no ALPN": nil}
	got := make(map[string]string)
	for maker, newServer := range makers {
		protocols := new(http.Protocols)
		protocols.SetHTTP2(true)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %v", r.Proto, isOnShard() || maker == "net/http")
		})
		set := &http.Server{Protocols: protocols, Handler: handler}
		inner, dial := modes["tcp"](t)
		s := newServer(set)
		ours, isOurs := s.(*engine.Server)
		config := &tls.Config{Certificates: testCertificates(), NextProtos: []string{"h2"}}
		served := goServe(s, secureListener{inner, config})
		for name, protos := range clients {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: protos})
			got[maker+name] = responseTo(tc)
		}
		if isOurs {
			eventually(t, "only connections of HTTP/2 are open", func() bool {
				_, open := ours.Connections()
				return open == 2
			})
		}
		s.Close()
		<-served
	}
	for name := range clients {
		ours, theirs := got["tare"+name], got["net/http"+name]
		isServed, mustServe := strings.HasPrefix(ours, "HTTP/2.0 true"), name == "h2" || name == "both"
		if ours != theirs || isServed != mustServe {
			t.Errorf("%s: got %q, net/http %q", name, ours, theirs)
		}
	}
}

// responseTo sends a request by the protocol that c negotiates, and describes the response.
func responseTo(c *tls.Conn) string {
	if err := c.Handshake(); err != nil {
		return fmt.Sprint("handshake: ", err)
	}
	r, err := http.NewRequest(http.MethodGet, "https://a.test/", nil)
	if err != nil {
		return err.Error()
	}
	var response *http.Response
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		conn, err := new(http2.Transport).NewClientConn(c)
		if err != nil {
			return err.Error()
		}
		response, err = conn.RoundTrip(r)
		if err != nil {
			return err.Error()
		}
	} else {
		_, _ = io.WriteString(c, get)
		if response, err = http.ReadResponse(bufio.NewReader(c), r); err != nil {
			return "no response"
		}
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%s %v", b, err)
}
