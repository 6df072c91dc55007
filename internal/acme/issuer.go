package acme

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"github.com/tarehq/tare/front/conf"
)

const (
	accountKeyName = "account.key"
	accountLock    = "account"
	// lockRetry is the time between attempts to lock the account, whose registration takes few
	// requests, or to reserve names.
	lockRetry = 100 * time.Millisecond

	// requestTimeout limits a request to an issuer.
	requestTimeout = time.Minute
	// cleanUpTimeout limits the removal of a DNS record.
	cleanUpTimeout = time.Minute
)

// issuer is a configured issuer with its account.
type issuer struct {
	conf      *conf.Issuer
	store     *store
	transport *issuerTransport
	client    *acmez.Client
	secrets   secrets

	mu      sync.Mutex
	account *acme.Account // nil until the first order
}

// secrets are the contents of an issuer's files, which are read while that is allowed.
type secrets struct{ accountKey, externalKey []byte }

func (m *Manager) newIssuer(c *conf.Issuer, s *store, keys secrets) *issuer {
	config := &tls.Config{InsecureSkipVerify: c.Insecure, Time: m.config.Now, MinVersion: tls.VersionTLS12}
	if c.Trusted != nil {
		config.RootCAs = x509.NewCertPool()
		for _, cert := range c.Trusted {
			config.RootCAs.AddCert(cert)
		}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: requestTimeout, MaxIdleConns: maxOrders}
	i := &issuer{conf: c, store: s, secrets: keys,
		transport: &issuerTransport{Transport: transport},
		client:    &acmez.Client{ChallengeSolvers: m.challenges.solvers(c.Challenge, m.config.DNS)}}
	i.newClient()
	return i
}

// newClient replaces the client. It reads the issuer's directory at most 12 hours later, because
// module acmez keeps a directory for that long and until the client's end.
func (i *issuer) newClient() {
	i.client.Client = &acme.Client{Directory: i.conf.Directory, UserAgent: userAgent,
		HTTPClient: &http.Client{Transport: i.transport, Timeout: requestTimeout}}
}

// register returns the issuer's account. The first call looks it up by its key, or registers it.
func (i *issuer) register(ctx context.Context) (acme.Account, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.account != nil {
		return *i.account, nil
	}
	unlock, err := i.lockAccount(ctx)
	if err != nil {
		return acme.Account{}, err
	}
	defer unlock()
	key, err := i.accountKey()
	if err != nil {
		return acme.Account{}, err
	}
	account, err := i.client.GetAccount(ctx, acme.Account{PrivateKey: key})
	switch {
	case isUnknownAccount(err):
		account, err = i.newAccount(ctx, key)
	case err == nil && !slices.Equal(account.Contact, i.conf.Contacts):
		location := account.Location // the next response does not have it
		account.Contact = slices.Clone(i.conf.Contacts)
		account, err = i.client.UpdateAccount(ctx, account)
		account.Location = location
	}
	if err == nil && account.Status != acme.StatusValid {
		err = fmt.Errorf("its status is %q", account.Status)
	}
	if err != nil {
		return account, fmt.Errorf("account: %w", err)
	}
	i.account = &account
	return account, nil
}

// lockAccount locks the account's files. It waits, because another process may be registering it.
func (i *issuer) lockAccount(ctx context.Context) (unlock func(), err error) {
	for {
		if unlock, err = i.store.lock(accountLock); !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("account: %w", ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// accountKey returns the account's key, and creates it if there is none.
func (i *issuer) accountKey() (crypto.Signer, error) {
	if i.conf.AccountKeyFile != "" {
		key, err := decodeKey(i.secrets.accountKey)
		if err != nil {
			return nil, fmt.Errorf("account_key %s: %w", i.conf.AccountKeyFile, err)
		}
		return key, nil
	}
	text, err := i.store.read(accountKeyName)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newKey(i.conf.AccountKey)
		if err == nil {
			text, err = encodeKey(key)
		}
		if err == nil {
			err = i.store.write(accountKeyName, text)
		}
		if err != nil {
			return nil, fmt.Errorf("account key: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("account key: %w", err)
	}
	key, err := decodeKey(text)
	if err != nil {
		return nil, fmt.Errorf("account key: %s: %w (restore it, or remove it to register a new account)",
			i.store.path(accountKeyName), err)
	}
	return key, nil
}

// newAccount registers an account.
func (i *issuer) newAccount(ctx context.Context, key crypto.Signer) (acme.Account, error) {
	account := acme.Account{PrivateKey: key, Contact: slices.Clone(i.conf.Contacts),
		TermsOfServiceAgreed: i.conf.AcceptTerms}
	if id := i.conf.ExternalAccount; id != "" {
		text := i.conf.ExternalKey
		if i.conf.ExternalKeyFile != "" {
			text = string(i.secrets.externalKey)
		}
		err := account.SetExternalAccountBinding(ctx, i.client.Client, acme.EAB{KeyID: id,
			MACKey: strings.TrimRight(strings.TrimSpace(text), "=")})
		if err != nil {
			return account, fmt.Errorf("external_account_key: %w", err)
		}
	}
	registered, err := i.client.NewAccount(ctx, account)
	if err != nil && !i.conf.AcceptTerms {
		dir, dirErr := i.client.GetDirectory(ctx)
		if dirErr == nil && dir.Meta != nil && dir.Meta.TermsOfService != "" {
			err = fmt.Errorf("%w (the issuer has terms of service, %s: accept_terms_of_service agrees to them)", err,
				dir.Meta.TermsOfService)
		}
	}
	return registered, err
}

// forget makes the next order look up the account, and register it again if it is unknown.
func (i *issuer) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.account = nil
}

// isUnknownAccount reports whether an issuer does not know an account.
func isUnknownAccount(err error) bool {
	problem, ok := errors.AsType[acme.Problem](err)
	return ok && problem.Type == acme.ProblemTypeAccountDoesNotExist
}
