package engine_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/tarehq/tare/internal/testkit"
)

// updatingClient is a client of TLS 1.3 that can send KeyUpdate messages, which package tls cannot:
// after the handshake it encrypts its records itself. The tls.Conn decrypts the server's.
type updatingClient struct {
	*testing.T
	*tls.Conn
	below  net.Conn
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	number uint64
	isAES  bool
}

// newUpdatingClient performs a handshake on below.
func newUpdatingClient(t *testing.T, below net.Conn) *updatingClient {
	var keys bytes.Buffer
	c := &updatingClient{T: t, below: below}
	c.Conn = tls.Client(below, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: &keys})
	_ = below.SetDeadline(time.Now().Add(time.Minute))
	testkit.Must(t, c.Conn.Handshake())
	switch suite := c.Conn.ConnectionState().CipherSuite; suite {
	case tls.TLS_AES_128_GCM_SHA256:
		c.isAES = true
	case tls.TLS_CHACHA20_POLY1305_SHA256: // processors without AES instructions
	default:
		t.Fatalf("the cipher suite is %s", tls.CipherSuiteName(suite))
	}
	_, rest, _ := strings.Cut(keys.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	line, _, _ := strings.Cut(rest, "\n")
	secret, err := hex.DecodeString(line[strings.IndexByte(line, ' ')+1:])
	if err != nil || len(secret) == 0 {
		t.Fatalf("no secret in %q", keys.String())
	}
	c.use(secret)
	return c
}

// expand is HKDF-Expand-Label without a context (RFC 8446, 7.1).
func (c *updatingClient) expand(label string, size int) []byte {
	label = "tls13 " + label
	info := append([]byte{byte(size >> 8), byte(size), byte(len(label))}, label...)
	out, err := hkdf.Expand(sha256.New, c.secret, string(append(info, 0)), size)
	testkit.Must(c, err)
	return out
}

// use encrypts what follows with the keys of a traffic secret.
func (c *updatingClient) use(secret []byte) {
	var err error
	c.secret, c.number = secret, 0
	c.iv = c.expand("iv", chacha20poly1305.NonceSize)
	if c.isAES {
		var block cipher.Block
		if block, err = aes.NewCipher(c.expand("key", 16)); err == nil {
			c.aead, err = cipher.NewGCM(block)
		}
	} else {
		c.aead, err = chacha20poly1305.New(c.expand("key", chacha20poly1305.KeySize))
	}
	testkit.Must(c, err)
}

// appendRecord appends an encrypted record (RFC 8446, 5.2).
func (c *updatingClient) appendRecord(out []byte, kind byte, content string) []byte {
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(content)+1+c.aead.Overhead()))
	nonce := bytes.Clone(c.iv)
	for i := range 8 {
		nonce[len(nonce)-1-i] ^= byte(c.number >> (8 * i))
	}
	c.number++
	return c.aead.Seal(append(out, head...), nonce, append([]byte(content), kind), head)
}

// appendUpdate appends a KeyUpdate (RFC 8446, 4.6.3), and uses the next keys.
func (c *updatingClient) appendUpdate(out []byte, requestsUpdate bool) []byte {
	const handshake, keyUpdate = 22, 24
	requests := "\x00"
	if requestsUpdate {
		requests = "\x01"
	}
	out = c.appendRecord(out, handshake, string([]byte{keyUpdate, 0, 0, 1})+requests)
	c.use(c.expand("traffic upd", sha256.Size))
	return out
}

const applicationData = 23

func (c *updatingClient) send(records []byte) {
	c.Helper()
	if _, err := c.below.Write(records); err != nil {
		c.Fatal(err)
	}
}

// below returns a connection to the site without TLS.
func (s *site) below() net.Conn {
	s.Helper()
	c, err := s.dial()
	testkit.Must(s, err)
	below := c.(*tls.Conn).NetConn()
	s.Cleanup(func() { below.Close() })
	return below
}

// A client may change its keys at any time: between requests, in a head, in a body, and while the
// server waits for it. The server changes its own when the client requests it.
func TestClientsUpdateTheirKeys(t *testing.T) {
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v.", b, err)
	}), func(s *site) {
		c := newUpdatingClient(s.T, s.below())
		pieces := []string{"POST / HTTP/1.1\r\nHo", "st: a\r\nContent-Length: 10\r\n\r\nhello", "world"}
		for i := range 30 {
			var out []byte
			for n, piece := range pieces {
				for range i % 4 {
					out = c.appendUpdate(out, (i+n)%3 > 0)
				}
				out = c.appendRecord(out, applicationData, piece)
				if i%2 == 0 { // each piece by itself
					c.send(out)
					out = nil
				}
			}
			c.send(out)
			if got := readResponses(s.T, c.Conn, 1); !strings.HasSuffix(got, "helloworld <nil>.") {
				s.Fatalf("request %d: %q", i, got)
			}
		}
	})
}

// A client that sends KeyUpdates without end holds up no other, and loses its connection.
func TestKeyUpdateFloodIsBounded(t *testing.T) {
	overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		const flooders, most = 4, 300_000
		ended := make(chan error, flooders)
		for range flooders {
			c := newUpdatingClient(s.T, s.below())
			_ = c.below.(*net.TCPConn).SetReadBuffer(4 << 10)
			go func() {
				for range most / 100 {
					var out []byte
					for range 100 {
						out = c.appendUpdate(out, true)
					}
					_ = c.below.SetWriteDeadline(time.Now().Add(5 * time.Second))
					if _, err := c.below.Write(out); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		for range 50 {
			if got := s.get("/"); got != "done." {
				s.Fatalf("got %q", got)
			}
		}
		for range flooders {
			if err := <-ended; err == nil {
				s.Errorf("%d KeyUpdates were accepted, and the server has sent as many", most)
			}
		}
	})
}

// Package tls ends a connection whose client sends many KeyUpdates in a row. It thus never reads
// them for long, which would hold up a loop.
func TestKeyUpdatesWithoutDataEndTheConnection(t *testing.T) {
	const accepted = 16
	overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		for _, updates := range []int{accepted, accepted + 1} {
			c := newUpdatingClient(s.T, s.below())
			var out []byte
			for range updates {
				out = c.appendUpdate(out, false)
			}
			c.send(c.appendRecord(out, applicationData, get))
			got := make([]byte, 1)
			if n, err := c.Conn.Read(got); (n > 0) != (updates == accepted) {
				s.Errorf("after %d KeyUpdates the client reads %q, %v", updates, got[:n], err)
			}
		}
	})
}
