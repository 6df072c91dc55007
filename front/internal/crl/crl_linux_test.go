package crl_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/crl"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// issue makes the certificate of an authority, signed by another one, or by itself if by is nil.
func issue(t *testing.T, name string, by *tlstest.Issued) *tlstest.Issued {
	t.Helper()
	return tlstest.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCRLSign | x509.KeyUsageCertSign}, by)
}

func TestCheck(t *testing.T) {
	now := time.Now()
	before, after := now.Add(-time.Minute), now.Add(time.Minute)
	root := issue(t, "root", nil)
	between := issue(t, "between", root)
	leaf := issue(t, "leaf", between)
	stranger := issue(t, "root", nil) // with the same name and another key
	chain := []*x509.Certificate{leaf.Certificate, between.Certificate, root.Certificate}
	list := func(by *tlstest.Issued, from, until time.Time, revoked ...*big.Int) *x509.RevocationList {
		return testkit.Value(crl.Parse(by.Revoke(t, from, until, revoked...)))(t)
	}
	type lists = []*x509.RevocationList
	for name, test := range map[string]struct {
		lists lists
		want  string
	}{
		"complete":                   {lists{list(root, before, after), list(between, before, after)}, ""},
		"none":                       {nil, crl.Missing},
		"no list of the one between": {lists{list(root, before, after)}, crl.Missing},
		"revoked": {lists{list(root, before, after),
			list(between, before, after, big.NewInt(7), leaf.SerialNumber)}, crl.Revoked},
		"the one between is revoked": {lists{list(root, before, after, between.SerialNumber)}, crl.Revoked},
		"expired":                    {lists{list(root, before.Add(-time.Hour), before), list(between, before, after)}, crl.Expired},
		"not yet valid":              {lists{list(root, after, after.Add(time.Hour)), list(between, before, after)}, crl.NotYetValid},
		"one of two is valid": {lists{list(root, before.Add(-time.Hour), before),
			list(root, before, after), list(between, before, after)}, ""},
		"of another key": {lists{list(stranger, before, after), list(between, before, after)}, crl.Missing},
	} {
		testkit.Equal(t, crl.Check(test.lists, chain, now), test.want, name)
	}
}

// openssl writes lists of version 1 by default.
func TestListsOfOpenSSL(t *testing.T) {
	testkit.Long(t, "it starts programs")
	path, env := programs.Installed(t, "openssl", "openssl")
	dir := t.TempDir()
	config := fmt.Sprintf("[ca]\ndefault_ca = c\n[c]\ndatabase = %[1]s/index\ndefault_md = sha256\n[req]\n"+
		"distinguished_name = d\nx509_extensions = v\n[d]\n[v]\nbasicConstraints = critical,CA:TRUE\n", dir)
	const index = "R\t300101000000Z\t250101000000Z\t1002\tunknown\t/CN=gone\n"
	for name, text := range map[string]string{"conf": config, "index": index} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(args ...string) {
		command := exec.CommandContext(t.Context(), path, args...)
		command.Dir, command.Env = dir, append(os.Environ(), env...)
		testkit.Succeeds(t, command)
	}
	for _, algorithm := range [][]string{{"-newkey", "rsa:2048"}, {"-newkey", "ec", "-pkeyopt",
		"ec_paramgen_curve:P-256"}} {
		run(append([]string{"req", "-x509", "-config", "conf", "-nodes", "-subj", "/CN=root", "-out", "crt", "-keyout",
			"key"}, algorithm...)...)
		run("ca", "-gencrl", "-config", "conf", "-keyfile", "key", "-cert", "crt", "-crldays", "1", "-out", "crl")
		cert := testkit.Value(x509.ParseCertificate(decoded(t, dir, "crt")))(t)
		der := decoded(t, dir, "crl")
		testkit.Fails(x509.ParseRevocationList(der))(t, "", "package x509 parses version 1: Parse is not needed")
		list := testkit.Value(crl.Parse(der))(t)
		if err := list.CheckSignatureFrom(cert); err != nil || len(list.RevokedCertificateEntries) != 1 ||
			list.RevokedCertificateEntries[0].SerialNumber.Int64() != 0x1002 || list.NextUpdate.Before(time.Now()) {
			t.Errorf("%v: %v, %+v", algorithm, err, list)
		}
		got := crl.Check([]*x509.RevocationList{list}, []*x509.Certificate{cert}, time.Now())
		testkit.Equal(t, got, "", algorithm, "the root")
		for i := range der { // an error, or a list whose signature is not valid, and no panic
			changed := append([]byte(nil), der...)
			changed[i] ^= 1
			signed := i > 4 && i < 4+len(list.RawTBSRevocationList)
			if list, err := crl.Parse(changed); signed && err == nil && list.CheckSignatureFrom(cert) == nil {
				if got := crl.Check([]*x509.RevocationList{list}, []*x509.Certificate{cert}, time.Now()); got == "" {
					t.Errorf("%v: byte %d may change", algorithm, i)
				}
			}
			testkit.Fails(crl.Parse(der[:i]))(t, "", algorithm, i, "bytes")
		}
	}
}

func decoded(t *testing.T, dir, name string) []byte {
	t.Helper()
	text := testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM in %s: %q", name, text)
	}
	return block.Bytes
}

// firstList makes a list of version 1, whose extensions are not allowed.
func firstList(t *testing.T, by *tlstest.Issued, extensions, ofEntry []pkix.Extension) []byte {
	t.Helper()
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}
	now := time.Now().UTC()
	marshal := func(v any) []byte {
		return testkit.Value(asn1.Marshal(v))(t)
	}
	list := marshal(struct {
		Algorithm    pkix.AlgorithmIdentifier
		Issuer       asn1.RawValue
		This, Next   time.Time
		Certificates []pkix.RevokedCertificate
		Extensions   []pkix.Extension `asn1:"optional,explicit,tag:0"`
	}{algorithm, asn1.RawValue{FullBytes: by.RawSubject}, now.Add(-time.Hour), now.Add(time.Hour),
		[]pkix.RevokedCertificate{{SerialNumber: big.NewInt(9), RevocationTime: now, Extensions: ofEntry}}, extensions})
	sum := sha256.Sum256(list)
	signature := testkit.Value(ecdsa.SignASN1(rand.Reader, by.Key, sum[:]))(t)
	return marshal(struct {
		List      asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: list}, algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
}

// A list of version 1 with extensions is not taken for a complete one: it may be a delta list. An
// entry's critical extension is an error in both versions.
func TestListsWithExtensions(t *testing.T) {
	root := issue(t, "root", nil)
	extension := func(critical bool) []pkix.Extension {
		return []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: critical, Value: []byte{2, 1, 1}}}
	}
	second := func(ofEntry []pkix.Extension) []byte {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1),
			ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: big.NewInt(9),
				RevocationTime: time.Now(), ExtraExtensions: ofEntry}}}, root.Certificate, root.Key)
		testkit.Must(t, err)
		return der
	}
	chain := []*x509.Certificate{root.Certificate}
	for name, test := range map[string]struct {
		der   []byte
		valid bool
	}{
		"version 1": {firstList(t, root, nil, nil), true}, "version 2": {second(nil), true},
		"critical":            {firstList(t, root, extension(true), nil), false},
		"not critical":        {firstList(t, root, extension(false), nil), false},
		"of an entry":         {firstList(t, root, nil, extension(false)), false},
		"not critical, entry": {second(extension(false)), true}, "critical, entry": {second(extension(true)), false},
	} {
		list, err := crl.Parse(test.der)
		testkit.Equal(t, err == nil, test.valid, name, err)
		if err == nil {
			testkit.Equal(t, crl.Check([]*x509.RevocationList{list}, chain, time.Now()), "", name)
		}
	}
}
