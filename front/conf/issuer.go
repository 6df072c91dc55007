package conf

import "crypto/x509"

// Issuer is a certificate authority that issues certificates by ACME (RFC 8555): an acme_issuer
// block. The server orders and renews certificates, not the handler.
type Issuer struct {
	// Name is what Issued refers to.
	Name string
	// Directory is the URL of the authority's directory.
	Directory string
	// Contacts are URLs for the authority's messages, such as "mailto:admin@example.org".
	Contacts []string
	// AccountKey is the type of the account's key, which is created with the account. It is
	// "ecdsa:256", "ecdsa:384", "ecdsa:521", "rsa:2048", "rsa:3072" or "rsa:4096". "" and "ecdsa"
	// are "ecdsa:256", and "rsa" is "rsa:2048". AccountKeyFile is a file with a key in PEM, which
	// is used instead.
	AccountKey     string
	AccountKeyFile string
	// ExternalAccount is the ID of an account outside of ACME to which the account is bound (RFC
	// 8555, 7.3.4); "" binds none. ExternalKey is its MAC key in base64url, and ExternalKeyFile a file
	// with that. One of them is set.
	ExternalAccount, ExternalKey, ExternalKeyFile string
	// AcceptTerms agrees to the authority's terms of service.
	AcceptTerms bool

	// Challenge is how the control of names is proved (RFC 8555, 8, and RFC 8737): "http-01",
	// "tls-alpn-01" or "dns-01"; "" is "http-01".
	Challenge string
	// PreferredChain selects the chain whose topmost certificate was issued by this common name.
	// "" is the authority's default, and so is a name that no chain has.
	PreferredChain string
	// Profile is the certificate profile to request. If the authority does not offer it, its
	// default is used, which is logged, or ordering fails if RequireProfile is set.
	Profile        string
	RequireProfile bool

	// Trusted are the authorities that verify the certificate of the directory's server. Nil
	// selects the system's. Insecure skips the verification.
	Trusted  []*x509.Certificate
	Insecure bool

	// StateDir is the directory for the account, certificates and keys.
	StateDir string
	// Pos is its position in the configuration, for messages.
	Pos string
}

// Issued is a certificate that an Issuer issues: an acme_certificate directive.
type Issued struct {
	// Issuer is the name of the Issuer.
	Issuer string
	// Names are DNS names and IP addresses. Names such as "*.example.org" require the
	// challenge "dns-01".
	Names []string
	// Key is the type of the certificate's key: see Issuer.AccountKey.
	Key string
}
