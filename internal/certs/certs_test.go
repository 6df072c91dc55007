package certs_test

import (
	"context"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/certs"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// file is a file in memory.
type file struct {
	mu   sync.Mutex
	text string
	err  error
}

func (f *file) Read(int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []byte(f.text), f.err
}

func (f *file) String() string { return "file" }

func (f *file) set(text string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.err = text, err
}

func pair(t *testing.T, number int64, from, until time.Time) (cert, key string) {
	t.Helper()
	public, secret := tlstest.SelfSign(t, x509.Certificate{
		SerialNumber: big.NewInt(number), NotBefore: from, NotAfter: until,
		DNSNames: []string{"a.example", "b.example"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)},
	})
	return string(public), string(secret)
}

func year(t *testing.T, number int64) (cert, key string) {
	return pair(t, number, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
}

// open opens a store of a certificate with the number 1.
func open(t *testing.T, log func(string)) (s *certs.Store, cert, key *file) {
	t.Helper()
	cert, key = new(file), new(file)
	cert.text, key.text = year(t, 1)
	s, err := certs.Open(certs.Config{Cert: cert, Key: key, Every: time.Millisecond, Log: log})
	testkit.Must(t, err)
	return s, cert, key
}

func number(t *testing.T, s *certs.Store) int64 {
	t.Helper()
	c := testkit.Value(s.GetCertificate(nil))(t)
	return c.Leaf.SerialNumber.Int64()
}

func TestReloadKeepsOldCertificateOnError(t *testing.T) {
	s, cert, key := open(t, nil)
	testkit.Equal(t, testkit.Value(s.Reload())(t), false, "changed")
	cert2, key2 := year(t, 2)
	for _, bad := range []struct {
		cert, key string
		err       error
	}{{"rubbish", key2, nil}, {cert2, "rubbish", nil}, {cert2, key.text, nil}, {"", "", nil}, {cert2, key2,
		errors.New("gone")}} {
		old, oldKey := cert.text, key.text
		cert.set(bad.cert, bad.err)
		key.set(bad.key, nil)
		testkit.Fails(s.Reload())(t, "", bad.cert)
		testkit.Equal(t, number(t, s), 1, "the certificate after", bad.cert)
		cert.set(old, nil)
		key.set(oldKey, nil)
	}
	cert.set(cert2, nil)
	key.set(key2, nil)
	testkit.Equal(t, testkit.Value(s.Reload())(t), true, "changed")
	testkit.Equal(t, number(t, s), 2, "the new certificate")
}

// A change is noticed. An invalid certificate is logged once, and so is its end.
func TestWatchReportsChangesAndErrors(t *testing.T) {
	logged := make(chan string, 10)
	s, cert, key := open(t, func(text string) { logged <- text })
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { s.Watch(ctx) })
	wait := func(want string) {
		t.Helper()
		testkit.Contains(t, testkit.Receive(t, logged, "a log line"), want)
	}
	old := cert.text
	cert.set("rubbish", nil)
	wait("certificate: still serving the old one: file and file: failed to find any PEM data")
	cert.set(old, nil)
	wait("certificate: the files again hold the one in use")
	cert.set("", errors.New("gone"))
	wait("certificate: still serving the old one: certificate: gone")
	cert2, key2 := year(t, 2)
	cert.set(cert2, nil)
	key.set(key2, nil)
	got := <-logged // may be that they do not match, if the change fell between two reads
	if strings.Contains(got, "private key does not match") {
		got = <-logged
	}
	testkit.Contains(t, got, "certificate: serving a new one: a.example b.example 192.0.2.1, until ")
	testkit.Equal(t, number(t, s), 2, "the new certificate")
	cancel()
	watch.Wait()
	testkit.Equal(t, len(logged), 0, "more lines")
}

func TestDescribeWarnsOfExpiry(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	for _, c := range []struct {
		from, until time.Duration
		want        string
	}{
		{-day, 30 * day, ""}, {-day, 10 * day, " (expires soon)"}, {-day, -time.Hour, " (expired, renew it)"}, {day,
			30 * day, " (not valid before "},
	} {
		var cert, key file
		cert.text, key.text = pair(t, 1, now.Add(c.from), now.Add(c.until))
		s := testkit.Value(certs.Open(certs.Config{Cert: &cert, Key: &key}))(t)
		got := s.Describe(now)
		plain := "a.example b.example 192.0.2.1, until " + now.Add(c.until).UTC().Format(time.DateOnly)
		if !strings.HasPrefix(got, plain+c.want) || c.want == "" && got != plain {
			t.Errorf("got %q, want %q", got, plain+c.want)
		}
	}
}

func TestOpenFailsOnInvalidFiles(t *testing.T) {
	cert, key := year(t, 1)
	for _, c := range []struct{ cert, key *file }{
		{&file{text: "rubbish"}, &file{text: key}}, {&file{text: cert}, &file{text: ""}}, {&file{err: errors.New("no")},
			&file{text: key}},
		{&file{text: cert}, &file{err: errors.New("no")}},
	} {
		testkit.Fails(certs.Open(certs.Config{Cert: c.cert, Key: c.key}))(t, "")
	}
	both := &file{text: cert + key}
	testkit.Value(certs.Open(certs.Config{Cert: both, Key: both}))(t)
}
