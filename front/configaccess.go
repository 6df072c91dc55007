package front

import (
	"crypto/x509"
	"net/netip"
)

// AccessRule lets in or keeps out.
type AccessRule struct {
	Deny bool
	// Net is whom; the zero Prefix is everybody, and Unix who comes by a unix socket.
	Net  netip.Prefix
	Unix bool
}

// Password is HTTP's basic authentication (RFC 7617).
type Password struct {
	Realm Text // "off" asks for none
	File  Text // lines of name:hash, as htpasswd writes them
}

// AuthRequest asks for another path of the host whether a request may come in: a status from 200 to 299 lets it in, 401 and 403 are what the
// client gets, with the fields WWW-Authenticate that came with 401, and anything else is an error, 500. The path's location answers as usual,
// an Internal one, too, but for its access rules and its filters, and is asked by GET, without the client's body, and without what the client says
// of that or of the answer that it wants. Its variables are those of the request, which it may change.
type AuthRequest struct {
	// URI is the path as it is: it has neither variables nor a query. "" asks nobody, and has the variables be there all the same.
	URI string
	// Set gives variables of the request values that are made when the answer is there, of which $status, $upstream_http_NAME and so on tell then.
	// A handler that Bind has bound tells of its answer by these, too.
	Set []Set
}

// Referers are the pages that may lead to a location. $invalid_referer is "1" of requests that come from others, and else empty.
type Referers struct {
	// None and Blocked are requests without a Referer, and with one that is no URL of http or https.
	None, Blocked bool
	// Names are those of hosts, as in Host.Names, but that a path may be behind: "example.org/galleries/" is for URLs that go on with it.
	// Ports do not count.
	Names []string
	// Patterns are regular expressions without a "~", of what is behind a URL's scheme: host, port, path and query. Case does not count.
	Patterns []string
}

// SecureLink checks links that an application has made: by Link and MD5, or by Secret.
type SecureLink struct {
	// Link has the sum of MD5 in base64url, and perhaps a comma and when the link expires, in seconds since 1970: "$arg_md5,$arg_expires".
	// $secure_link is "1" if the sum is right, "0" if it is and the link has expired, and else empty.
	Link Text
	// MD5 is what the sum is of, with a secret: "$secure_link_expires$uri secret".
	MD5 Text
	// Secret has $secure_link be LINK of a URI "/prefix/SUM/LINK", if SUM is that of LINK and the secret in hexadecimal digits, and else empty.
	Secret string
}

// RealIP is the client's address as trusted proxies tell it.
type RealIP struct {
	From []netip.Prefix
	Unix bool // trusts who comes by a unix socket
	// Header is where it is told: "X-Real-IP" if it is empty, "X-Forwarded-For", or "proxy_protocol"; see WithProxyHeader.
	Header string
	// Recursive takes the last address that is not trusted, not the last.
	Recursive bool
}

// ClientCerts says which certificates of clients a Host accepts. Requests of others get 495 or 496, which clients see as 400.
type ClientCerts struct {
	Mode CertMode
	// Trusted are the certificates of authorities. Those that sign themselves are trust anchors; others may stand between.
	Trusted []*x509.Certificate
	// Depth is how many certificates may be between the client's and a trust anchor.
	Depth int
	// Revocations are lists of revoked certificates; nil looks for none. Otherwise each authority of a chain needs a valid one.
	Revocations []*x509.RevocationList
}

// CertMode is what happens to requests without a valid certificate.
type CertMode int

// Modes of ssl_verify_client.
const (
	CertRequired     CertMode = iota // on: there has to be one, and it has to be valid
	CertOptional                     // optional: there may be none
	CertOptionalNoCA                 // optional_no_ca: nor need it be of an authority that is known
)
