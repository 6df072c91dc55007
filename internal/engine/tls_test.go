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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

func overTLS(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	someModes(t, settings, test, "tls", "ServeTLS")
}

// splitConn sends in pieces of a size. While it is holding, it collects what is written until send.
type splitConn struct {
	*net.TCPConn
	size    int
	holding bool
	held    []byte
}

func (c *splitConn) Write(p []byte) (int, error) {
	if c.holding {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	for i := 0; i < len(p); i += c.size {
		if _, err := c.TCPConn.Write(p[i:min(len(p), i+c.size)]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func (c *splitConn) send() error {
	c.holding = false
	_, err := c.Write(c.held)
	c.held = nil
	return err
}

// Neither the borders of TCP segments nor those of TLS records matter: not in the handshake, not in
// a head, and not in a body. Several requests may arrive at once, in one record or in many.
func TestTLSRecordsArriveInAnyPieces(t *testing.T) {
	const n = 8
	request := "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v.", b, r.TLS.HandshakeComplete)
	}), func(s *site) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, segment := range []int{1, 7, 100, 1 << 20} {
				for _, record := range []int{1, 50, 1 << 20} {
					raw := &splitConn{TCPConn: s.below().(*net.TCPConn), size: segment}
					c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
					testkit.Must(s, c.Handshake())
					raw.holding = segment > 100
					for part := range slices.Chunk([]byte(strings.Repeat(request, n)), record) {
						testkit.Send(s, c, part)
					}
					testkit.Must(s, raw.send())
					testkit.Equal(s, strings.Count(readResponses(s.T, c, n), "hello true."), n,
						"version", version, "segments of", segment, "records of", record)
				}
			}
		}
	})
}

func recordTypes(b []byte) (types []byte) {
	for len(b) >= 5 {
		types = append(types, b[0])
		b = b[min(len(b), 5+int(b[3])<<8+int(b[4])):]
	}
	return types
}

// The last record of a connection that the server ends is an alert, close_notify, whether it ends
// after a response or while it is idle.
func TestTLSConnectionEndsWithCloseNotify(t *testing.T) {
	const alert = 21
	overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		for _, closing := range []bool{true, false} {
			raw := s.below()
			c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
			if closing {
				io.WriteString(c, withField("Connection: close"))
			} else {
				s.request(c, "/")
				s.server.SetKeepAlivesEnabled(false)
			}
			types := recordTypes([]byte(readAllOf(s.T, raw)))
			testkit.Equal(s, bytes.HasSuffix(types, []byte{alert}), true, "an alert ends", types, "closing", closing)
		}
	})
}

// Handshakes that fail are logged. Those of clients that speak something else are also reported, as
// far as the request is known.
func TestFailedHandshakesAreLogged(t *testing.T) {
	const plain = "client sent an HTTP request to an HTTPS server"
	for name, test := range map[string]struct {
		timeout              time.Duration
		sent, logs, reported string
	}{
		"plaintext": {0, get, plain, "GET /|||400"},
		"preface":   {0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", plain, "PRI *|||400"},
		"garbage":   {0, "hello\r\n\r\n", "tls: first record does not look like a TLS handshake", "hello|||400"},
		"nothing":   {0, "", "EOF", ""},
		"part":      {0, "\x16\x03\x01\x02\x00\x01", "EOF", ""},
		"bad hello": {0, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "tls: error decoding message", ""},
		"timeout":   {time.Millisecond, "\x16", "i/o timeout", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wantReports(t, test.reported, test.timeout, func(s *site) {
				raw := s.below()
				io.WriteString(raw, test.sent)
				if test.timeout == 0 {
					closeWriteOf(raw)
				}
				readAllOf(s.T, raw)
				want := fmt.Sprintf("http: TLS handshake error from %v: ", raw.LocalAddr())
				testkit.WaitFor(s, want, func() bool { return strings.Contains(s.logged.String(), want) })
				testkit.Contains(s, s.logged.String(), test.logs, "the log")
			}, "tls", "ServeTLS")
		})
	}
}

// A TLS client that ends its sending side while a handler runs receives all of the response, even
// if the server then closes the connection: the client's alert, which no handler reads, does
// not reset the connection.
func TestTLSClientThatHalfClosesReceivesAll(t *testing.T) {
	testkit.Long(t, "it waits for the network")
	const size, held = 200_000, 2048 // the end of an aborted response is held back, as by net/http
	for name, end := range map[string]func(){"return": func() {}, "abort": endings["abort"]} {
		entered, closed := make(chan bool), make(chan bool)
		overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) {
			entered <- true
			<-closed
			time.Sleep(40 * time.Millisecond) // until the alert has arrived
			io.WriteString(w, strings.Repeat("@", size))
			end()
		}), func(s *site) {
			c := s.connect().(*tls.Conn)
			// The client reads late, so that a part waits in the server's socket.
			testkit.Must(s, c.NetConn().(*net.TCPConn).SetReadBuffer(32<<10))
			io.WriteString(c, withField("Connection: close"))
			<-entered // the request has arrived alone
			c.CloseWrite()
			closed <- true
			time.Sleep(200 * time.Millisecond)
			b, err := io.ReadAll(c)
			testkit.Between(s, strings.Count(string(b), "@"), size-held, size, name, err)
		})
	}
}

// Tickets resume sessions on both paths: all connections of a listener have the keys of one
// configuration.
func TestTicketsResumeSessions(t *testing.T) {
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.DidResume, ".") }),
		func(s *site) {
			config := &tls.Config{InsecureSkipVerify: true, ServerName: "a",
				ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			for i, want := range []string{"false.", "true.", "true."} {
				c := tls.Client(s.below(), config)
				io.WriteString(c, get)
				testkit.Contains(s, readResponses(s.T, c, 1), "\n"+want, "connection", i)
				c.Close()
			}
		})
}

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
}

func newUpdatingClient(t *testing.T, below net.Conn) *updatingClient {
	var keys bytes.Buffer
	c := &updatingClient{T: t, below: below}
	c.Conn = tls.Client(below, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: &keys})
	testkit.Must(t, c.Conn.Handshake())
	if suite := c.Conn.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		testkit.Missing(t, "the processor has no instructions for AES: ", tls.CipherSuiteName(suite))
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
	return testkit.Value(hkdf.Expand(sha256.New, c.secret, string(append(info, 0)), size))(c)
}

// use encrypts what follows with the keys of a traffic secret.
func (c *updatingClient) use(secret []byte) {
	c.secret, c.number = secret, 0
	c.iv = c.expand("iv", 12)
	c.aead = testkit.Value(cipher.NewGCM(testkit.Value(aes.NewCipher(c.expand("key", 16)))(c)))(c)
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

// below returns a connection to the site without TLS.
func (s *site) below() net.Conn {
	s.Helper()
	return s.connect().(*tls.Conn).NetConn()
}

func (s *site) dialBelow() (net.Conn, error) {
	c, err := s.dial()
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn).NetConn(), nil
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
					testkit.Send(c, c.below, out)
					out = nil
				}
			}
			testkit.Send(c, c.below, out)
			testkit.Contains(s, readResponses(s.T, c.Conn, 1), "helloworld <nil>.", "request", i)
		}
	})
}

// Package tls ends a connection whose client sends many KeyUpdates in a row, and requests as many
// of the server. It thus never reads or sends them for long, which would hold up a loop.
func TestKeyUpdatesWithoutDataEndTheConnection(t *testing.T) {
	const accepted = 16
	overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		for _, updates := range []int{accepted, accepted + 1} {
			c := newUpdatingClient(s.T, s.below())
			var out []byte
			for range updates {
				out = c.appendUpdate(out, true)
			}
			testkit.Send(c, c.below, c.appendRecord(out, applicationData, get))
			n, err := c.Conn.Read(make([]byte, 1))
			testkit.Equal(s, n > 0, updates == accepted, "there is a response to", updates, "KeyUpdates", err)
			testkit.Equal(s, s.get("/"), "done.", "another client has received")
		}
	})
}
