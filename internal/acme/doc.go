// Package acme obtains certificates by ACME (RFC 8555), stores them, and renews them while a server
// runs. The protocol is that of module acmez. This package decides when to order, and keeps what
// must not be lost.
//
// # Life of a certificate
//
//	missing   there is none: handshakes for its names fail
//	valid     waits for its time to be renewed
//	ordering  this process holds the certificate's lock, and an order is in progress
//	waiting   the last order failed: the old certificate, if any, is served until the next one
//
// # State on disk
//
// An issuer's directory has these files. Each is replaced atomically: written to another name,
// synced, and renamed.
//
//	account.key    the account's key; it is never replaced
//	NAME.pem       a certificate's key and its chain, in one file, so that they always match
//	NAME.key       the key of a certificate that has been ordered; it exists before the order does
//	NAME.json      failed attempts, so that a restart does not exceed the issuer's rate limits
//	NAME.lock      locked by the process that orders; account.lock by the one that registers
//
// NAME consists of the certificate's first name and a checksum of all names and the key's type. A
// file that cannot be parsed is replaced; an account's key is left in place, and is an error.
//
// # Issuers that do not respond
//
// An issuer holds up its own orders only, except while module acmez reads its directory, which it
// does for one issuer at a time. The three attempts take requestTimeout each at most. An order with
// another issuer then waits for three minutes, which is little beside the time until its
// certificate ends.
package acme
