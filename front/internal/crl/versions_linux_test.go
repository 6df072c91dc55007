package crl_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/crl"
	"github.com/tarehq/tare/internal/testkit"
)

// firstList makes a list of version 1, whose extensions are not allowed.
func (a *authority) firstList(t *testing.T, extensions, ofEntry []pkix.Extension) []byte {
	t.Helper()
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}
	now := time.Now().UTC()
	marshal := func(v any) []byte {
		der, err := asn1.Marshal(v)
		testkit.Must(t, err)
		return der
	}
	list := marshal(struct {
		Algorithm    pkix.AlgorithmIdentifier
		Issuer       asn1.RawValue
		This, Next   time.Time
		Certificates []pkix.RevokedCertificate
		Extensions   []pkix.Extension `asn1:"optional,explicit,tag:0"`
	}{algorithm, asn1.RawValue{FullBytes: a.cert.RawSubject}, now.Add(-time.Hour), now.Add(time.Hour),
		[]pkix.RevokedCertificate{{SerialNumber: big.NewInt(9), RevocationTime: now, Extensions: ofEntry}}, extensions})
	sum := sha256.Sum256(list)
	signature, err := ecdsa.SignASN1(rand.Reader, a.key.(*ecdsa.PrivateKey), sum[:])
	testkit.Must(t, err)
	return marshal(struct {
		List      asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: list}, algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
}

// A list of version 1 with extensions is not taken for a complete one: it may be a delta list. An
// entry's critical extension is an error in both versions.
func TestListsWithExtensions(t *testing.T) {
	root := issue(t, "root", 1, nil)
	extension := func(critical bool) []pkix.Extension {
		return []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: critical, Value: []byte{2, 1, 1}}}
	}
	second := func(ofEntry []pkix.Extension) []byte {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1),
			ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: big.NewInt(9),
				RevocationTime: time.Now(), ExtraExtensions: ofEntry}}}, root.cert, root.key.(*ecdsa.PrivateKey))
		testkit.Must(t, err)
		return der
	}
	chain := []*x509.Certificate{root.cert}
	for name, test := range map[string]struct {
		der   []byte
		valid bool
	}{
		"version 1": {root.firstList(t, nil, nil), true}, "version 2": {second(nil), true},
		"critical":            {root.firstList(t, extension(true), nil), false},
		"not critical":        {root.firstList(t, extension(false), nil), false},
		"of an entry":         {root.firstList(t, nil, extension(false)), false},
		"not critical, entry": {second(extension(false)), true}, "critical, entry": {second(extension(true)), false},
	} {
		list, err := crl.Parse(test.der)
		if (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		} else if err == nil && crl.Check([]*x509.RevocationList{list}, chain, time.Now()) != "" {
			t.Errorf("%s: the list is not valid", name)
		}
	}
}
