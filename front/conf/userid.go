package conf

import "time"

// UserID identifies clients by a cookie of 16 bytes, as nginx's module userid does.
type UserID struct {
	// Mode is "on", "v1" for the older form of the ID, or "log" to set no cookie.
	Mode string
	// Name is the cookie's; "" is "uid". Path is "/" by default.
	Name, Path, Domain string
	// Expires is the cookie's lifetime: 0 is the client's session, and a negative value the
	// longest.
	Expires time.Duration
	// Mark is a letter, digit or "=" in the cookie's padding: cookies without it are sent again.
	Mark string
	// Flags are attributes: secure, httponly, samesite=strict, samesite=lax, samesite=none.
	Flags []string
	// Service is the first part of IDs. Nil is the server's address, or 0 with "v1".
	Service *uint32
	// P3P is the value of a response's P3P field; "" omits it.
	P3P string
}
