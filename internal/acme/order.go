package acme

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// orderTimeout limits an order, with its challenges.
const orderTimeout = 10 * time.Minute

// maxCertificate limits the size of a certificate's file: clients receive the chain in each
// handshake.
const maxCertificate = 128 << 10

// issuedBy begins the line of a certificate's file that names the issuer's directory.
const issuedBy = "issued by "

// certificate is a certificate with its key, as its file has it.
type certificate struct {
	tls.Certificate
	directory string // of its issuer
	text      []byte
	obtained  time.Time // zero if it was read from a file
}

// period returns the period of a certificate; that of nil is empty.
func (c *certificate) period() period {
	if c == nil {
		return period{}
	}
	return period{c.Leaf.NotBefore, c.Leaf.NotAfter, c.obtained}
}

// isValid reports whether a certificate is valid at a time.
func (c *certificate) isValid(at time.Time) bool {
	return !at.Before(c.Leaf.NotBefore) && !at.After(c.Leaf.NotAfter)
}

// remaining returns how long the certificate is valid; 0 if it is nil or has expired.
func (c *certificate) remaining(now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	return max(0, c.Leaf.NotAfter.Sub(now))
}

// parseCertificate parses a certificate's file and checks that its names are the wanted ones.
func parseCertificate(text []byte, names []string) (*certificate, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	for _, name := range names {
		probe := strings.Replace(name, "*", "x", 1) // any name that the wildcard covers
		if err := pair.Leaf.VerifyHostname(probe); err != nil {
			return nil, err
		}
	}
	c := &certificate{Certificate: pair, text: text}
	if first, _, ok := strings.Cut(string(text), "\n"); ok {
		c.directory, _ = strings.CutPrefix(first, issuedBy)
	}
	return c, nil
}

// order orders a certificate. The key is stored before the order is made.
func (c *Certificate) order(ctx context.Context) (*certificate, error) {
	i := c.issuer
	i.newClient()
	account, err := i.register(ctx)
	if err != nil {
		return nil, err
	}
	key, err := c.pendingKey()
	if err != nil {
		return nil, err
	}
	params, err := c.orderParameters(ctx, key, account)
	if err != nil {
		return nil, err
	}
	chains, err := i.client.ObtainCertificate(ctx, params)
	if err != nil {
		return nil, err
	}
	if len(chains) == 0 {
		return nil, errors.New("the issuer returned no certificate")
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	text := []byte(issuedBy + i.conf.Directory + "\n")
	text = append(append(text, keyText...), preferred(chains, i.conf.PreferredChain)...)
	cert, err := parseCertificate(text, c.spec.Names)
	if err == nil {
		err = c.checkNew(cert)
	}
	if err != nil {
		return nil, fmt.Errorf("the issuer returned an unusable certificate: %w", err)
	}
	cert.obtained = c.now()
	return cert, nil
}

// checkNew returns an error if a new certificate must not replace the current one. If none is valid
// the machine's clock may be wrong.
func (c *Certificate) checkNew(cert *certificate) error {
	now, current := c.now(), c.current.Load()
	switch {
	case len(cert.text) > maxCertificate:
		return fmt.Errorf("larger than %d bytes", maxCertificate)
	case current != nil && current.isValid(now) && !cert.isValid(now):
		return fmt.Errorf("valid from %s to %s only", cert.Leaf.NotBefore.UTC().Format(time.DateTime),
			cert.Leaf.NotAfter.UTC().Format(time.DateTime))
	}
	return nil
}

// orderParameters returns the parameters of an order.
func (c *Certificate) orderParameters(ctx context.Context, key crypto.Signer,
	account acme.Account) (params acmez.OrderParameters, err error) {
	i := c.issuer
	csr, err := acmez.NewCSR(key, c.spec.Names)
	if err != nil {
		return params, err
	}
	if params, err = acmez.OrderParametersFromCSR(account, csr); err != nil {
		return params, err
	}
	dir, err := i.client.GetDirectory(ctx)
	if err != nil {
		return params, err
	}
	params.Profile, err = i.profile(dir)
	if err != nil && i.conf.RequireProfile {
		return params, err
	}
	if err != nil {
		c.logf("%s: %v: its default is used", i.conf.Name, err)
	}
	// An issuer that no longer knows the old certificate, or its account, rejects the order. So the
	// next attempt does not name it.
	current := c.current.Load()
	if current != nil && c.failures == 0 && dir.RenewalInfo != "" && current.directory == i.conf.Directory {
		params.Replaces = current.Leaf
	}
	return params, nil
}

// profile returns the profile to request, or "" for the issuer's default.
func (i *issuer) profile(dir acme.Directory) (string, error) {
	var offered []string
	if dir.Meta != nil {
		offered = slices.Sorted(maps.Keys(dir.Meta.Profiles))
	}
	name := i.conf.Profile
	if name == "" || slices.Contains(offered, name) {
		return name, nil
	}
	return "", fmt.Errorf("the issuer has no profile %q (it has: %s)", name, strings.Join(offered, ", "))
}

// pendingKey returns the key for the next order: the one that an interrupted order has stored, or a
// new one, which it stores.
func (c *Certificate) pendingKey() (crypto.Signer, error) {
	name := c.name + ".key"
	text, err := c.store.read(name)
	if err == nil {
		if key, err := decodeKey(text); err == nil && !c.uses(key) {
			return key, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := newKey(c.spec.Key)
	if err != nil {
		return nil, err
	}
	if text, err = encodeKey(key); err == nil {
		err = c.store.write(name, text)
	}
	return key, err
}

// uses reports whether the current certificate has a key.
func (c *Certificate) uses(key crypto.Signer) bool {
	current := c.current.Load()
	if current == nil {
		return false
	}
	public, ok := current.Leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

// preferred returns the chain whose topmost certificate was issued by a common name, or the first
// one.
func preferred(chains []acme.Certificate, commonName string) []byte {
	if commonName != "" {
		for _, chain := range chains {
			if topmostIssuer(chain.ChainPEM) == commonName {
				return chain.ChainPEM
			}
		}
	}
	return chains[0].ChainPEM
}

// topmostIssuer returns the common name that issued the last certificate of a chain.
func topmostIssuer(chain []byte) string {
	name := ""
	for {
		var block *pem.Block
		if block, chain = pem.Decode(chain); block == nil {
			return name
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			name = cert.Issuer.CommonName
		}
	}
}
