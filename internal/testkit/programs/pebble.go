package programs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// pebbleModule is the module of Pebble, an ACME server for tests.
const pebbleModule = "github.com/letsencrypt/pebble/v2"

const pebbleVersion = "v2.10.1"

// PebbleConfig configures an ACME server.
type PebbleConfig struct {
	// HTTPPort and TLSPort are where challenges are validated, whatever the name is.
	HTTPPort, TLSPort int
	// Lifetime is that of certificates; 0 is 90 days. Profiles are lifetimes of further profiles.
	Lifetime time.Duration
	Profiles map[string]time.Duration
	// ExternalKeys are MAC keys of external accounts by their IDs, which are then required.
	ExternalKeys map[string]string
	BadNonces    int      // percentage of valid nonces that are rejected
	Blocked      []string // names that are rejected
	Roots        int      // number of alternate roots
	Address      string   // where to listen; "" is a free address
}

// Pebble is an ACME server, with a DNS server that resolves all names to this machine.
type Pebble struct {
	// Directory is the URL of the directory, and CAFile the file that verifies its certificate.
	Directory, CAFile string
	address           string
	management        string
	dnsManagement     string
	client            *http.Client
	server            *testkit.Process
}

// StartPebble starts an ACME server until the test ends.
func StartPebble(t testing.TB, c PebbleConfig) *Pebble {
	t.Helper()
	dir := t.TempDir()
	free := FreeAddresses(t, 4)
	p := &Pebble{address: c.Address, management: free[0], dnsManagement: free[1],
		CAFile: filepath.Join(dir, "server.pem")}
	if p.address == "" {
		p.address = free[2]
	}
	p.Directory = "https://" + p.address + "/dir"
	cert, key := tlstest.SelfSign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true})
	profiles := map[string]any{"default": profile(c.Lifetime)}
	for name, lifetime := range c.Profiles {
		profiles[name] = profile(lifetime)
	}
	text := testkit.Value(json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": p.address, "managementListenAddress": p.management, "certificate": p.CAFile,
		"privateKey": filepath.Join(dir, "server.key"), "httpPort": c.HTTPPort, "tlsPort": c.TLSPort,
		"externalAccountBindingRequired": c.ExternalKeys != nil, "externalAccountMACKeys": c.ExternalKeys,
		"domainBlocklist": c.Blocked, "keyAlgorithm": "ecdsa", "profiles": profiles,
	}}))(t)
	for name, content := range map[string][]byte{"server.pem": cert, "server.key": key, "config.json": text} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	p.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	dns := free[3]
	Start(t, "tcp", p.dnsManagement, nil, buildPebble(t, "pebble-challtestsrv"), "-http01", "", "-https01", "", "-tlsalpn01",
		"", "-doh", "", "-dnsserver", dns, "-management", p.dnsManagement, "-defaultIPv4", "127.0.0.1",
		"-defaultIPv6", "")
	p.server = Start(t, "tcp", p.address, []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0",
		"PEBBLE_WFE_NONCEREJECT=" + strconv.Itoa(c.BadNonces), "PEBBLE_ALTERNATE_ROOTS=" + strconv.Itoa(c.Roots)},
		buildPebble(t, "pebble"), "-strict=false", "-config", filepath.Join(dir, "config.json"), "-dnsserver", dns)
	awaitListener(t, "tcp", p.management, "pebble", p.server.Done()) // it listens there independently
	return p
}

// profile returns the description of a profile, whose lifetime Pebble counts in seconds.
func profile(lifetime time.Duration) map[string]any {
	return map[string]any{"description": "a profile of " + lifetime.String(), "validityPeriod": int(lifetime.Seconds())}
}

// Stop ends the ACME server: connections to it fail.
func (p *Pebble) Stop(t testing.TB) { p.server.End(t) }

// Signal sends a signal to the ACME server.
func (p *Pebble) Signal(t testing.TB, sig os.Signal) { p.server.Signal(t, sig) }

// Root returns the root certificate of the certificates that the server issues. The alternate roots
// have numbers from 1.
func (p *Pebble) Root(t testing.TB, number int) *x509.Certificate {
	t.Helper()
	resp := testkit.Value(p.client.Get(fmt.Sprintf("https://%s/roots/%d", p.management, number)))(t)
	defer resp.Body.Close()
	text := testkit.Value(io.ReadAll(resp.Body))(t)
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no root: %s", text)
	}
	return testkit.Value(x509.ParseCertificate(block.Bytes))(t)
}

// Present creates a TXT record in the DNS server, as a DNSProvider of challenges.
func (p *Pebble) Present(_ context.Context, name, value string) error {
	return p.manageDNS("set-txt", map[string]string{"host": name + ".", "value": value})
}

// CleanUp removes the TXT record of a name.
func (p *Pebble) CleanUp(_ context.Context, name, _ string) error {
	return p.manageDNS("clear-txt", map[string]string{"host": name + "."})
}

// Resolve makes the DNS server resolve all names to another IPv4 address.
func (p *Pebble) Resolve(address string) error {
	return p.manageDNS("set-default-ipv4", map[string]string{"ip": address})
}

func (p *Pebble) manageDNS(path string, fields map[string]string) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	resp, err := http.Post("http://"+p.dnsManagement+"/"+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

// SetRenewalInfo sets the renewal information of a certificate.
func (p *Pebble) SetRenewalInfo(t testing.TB, cert *x509.Certificate, start, end time.Time) {
	t.Helper()
	info := testkit.Value(json.Marshal(map[string]any{
		"suggestedWindow": map[string]time.Time{"start": start, "end": end}}))(t)
	text := testkit.Value(json.Marshal(map[string]any{
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
		"ariResponse": string(info)}))(t)
	resp := testkit.Value(p.client.Post("https://"+p.management+"/set-renewal-info/", "application/json",
		bytes.NewReader(text)))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("set-renewal-info: %s: %s", resp.Status, body)
	}
}

func buildPebble(t testing.TB, program string) string {
	t.Helper()
	return built(t, "pebble-"+pebbleVersion, program, pebbleModule+"/cmd/"+program+"@"+pebbleVersion)
}
