package htpasswd

import (
	"crypto/md5"  // for $apr1$ and $1$
	"crypto/sha1" // for {SHA} and {SSHA}
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/go-crypt/x/crypt"
	"golang.org/x/crypto/bcrypt"
)

const (
	maxBcryptCost = 16 // a few seconds

	// Rounds of crypt's SHA-256 and SHA-512. maxRounds take a few seconds, too.
	defaultRounds = 5000
	minRounds     = 1000
	maxRounds     = 5_000_000
	maxCryptSalt  = 16 // bytes; crypt ignores the rest
)

func hashMatches(hash, password string) bool {
	matches, err := parseHash(hash)
	return err == nil && matches(password)
}

// parseHash returns a function that reports, in constant time, whether a hash is that of a
// password. An error reports why the hash is not supported.
func parseHash(hash string) (matches func(password string) bool, err error) {
	same := func(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
	_, rest, _ := strings.Cut(hash, "}")
	switch {
	case strings.HasPrefix(hash, "$apr1$"), strings.HasPrefix(hash, "$1$"):
		kind, rest, _ := strings.Cut(hash[1:], "$")
		salt, _, _ := strings.Cut(rest, "$")
		return func(password string) bool {
			return same([]byte(md5Crypt("$"+kind+"$", password, salt)), []byte(hash))
		}, nil
	case strings.HasPrefix(hash, "$2"):
		cost, err := bcrypt.Cost([]byte(hash))
		if err == nil && cost > maxBcryptCost {
			err = fmt.Errorf("bcrypt cost %d: want at most %d", cost, maxBcryptCost)
		}
		return func(password string) bool {
			return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
		}, err
	case strings.HasPrefix(hash, "$5$"), strings.HasPrefix(hash, "$6$"):
		c, err := parseCrypt(hash)
		return func(password string) bool { return same(c.key(password), []byte(c.want)) }, err
	case strings.HasPrefix(hash, "$"):
		kind, _, _ := strings.Cut(hash[1:], "$")
		return nil, fmt.Errorf("unsupported hash $%.10s$: make a bcrypt hash with \"htpasswd -B\"", kind)
	case strings.HasPrefix(hash, "{PLAIN}"):
		return func(password string) bool { return same([]byte(password), []byte(rest)) }, nil
	case strings.HasPrefix(hash, "{SHA}"), strings.HasPrefix(hash, "{SSHA}"):
		want, err := base64.StdEncoding.DecodeString(rest)
		salted := strings.HasPrefix(hash, "{SS") && len(want) > sha1.Size
		return func(password string) bool {
			text, want := []byte(password), want
			if salted {
				text, want = append(text, want[sha1.Size:]...), want[:sha1.Size]
			}
			sum := sha1.Sum(text)
			return err == nil && same(sum[:], want)
		}, nil
	}
	return nil, errors.New("unsupported hash, perhaps of the old crypt: make a bcrypt hash with \"htpasswd -B\"")
}

// isSlowHash reports whether computing a hash takes long by design.
func isSlowHash(hash string) bool { return strings.HasPrefix(hash, "$") }

// shaCrypt is a hash of crypt's by SHA-256 or SHA-512: "$6$rounds=5000$salt$key".
type shaCrypt struct {
	make       func() hash.Hash
	rounds     int
	salt, want string
}

func parseCrypt(text string) (c shaCrypt, err error) {
	c.make, c.rounds = sha256.New, defaultRounds
	if text[1] == '6' {
		c.make = sha512.New
	}
	rest := text[len("$6$"):]
	if rounds, ok := strings.CutPrefix(rest, "rounds="); ok {
		digits, after, _ := strings.Cut(rounds, "$")
		n, err := strconv.Atoi(digits)
		if err != nil || n > maxRounds {
			return c, fmt.Errorf("%.10q rounds: want at most %d", digits, maxRounds)
		}
		c.rounds, rest = max(n, minRounds), after
	}
	var ok bool
	if c.salt, c.want, ok = strings.Cut(rest, "$"); !ok || c.want == "" {
		return c, errors.New("incomplete hash: want $6$salt$key")
	}
	c.salt = c.salt[:min(len(c.salt), maxCryptSalt)]
	return c, nil
}

func (c *shaCrypt) key(password string) []byte {
	return crypt.KeySHACrypt(c.make, []byte(password), []byte(c.salt), c.rounds)
}

// md5Crypt returns crypt's hash of a password by MD5 in a thousand rounds. magic is "$1$", or
// "$apr1$" for Apache's variant.
func md5Crypt(magic, password, salt string) string {
	const rounds, maxSalt = 1000, 8
	salt = salt[:min(len(salt), maxSalt)]
	inner := md5.Sum([]byte(password + salt + password))
	first := []byte(password + magic + salt)
	for n := len(password); n > 0; n -= md5.Size {
		first = append(first, inner[:min(n, md5.Size)]...)
	}
	for n := len(password); n > 0; n >>= 1 {
		if n&1 == 1 {
			first = append(first, 0)
		} else {
			first = append(first, password[0])
		}
	}
	sum := md5.Sum(first)
	for i := range rounds {
		var b []byte
		add := func(odd bool) {
			if odd {
				b = append(b, password...)
			} else {
				b = append(b, sum[:]...)
			}
		}
		add(i&1 == 1)
		if i%3 != 0 {
			b = append(b, salt...)
		}
		if i%7 != 0 {
			b = append(b, password...)
		}
		add(i&1 == 0)
		sum = md5.Sum(b)
	}
	return magic + salt + "$" + md5Digits(sum)
}

// md5Digits returns a sum in crypt's digits and byte order.
func md5Digits(sum [md5.Size]byte) string {
	const digits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var out []byte
	write := func(v uint, n int) {
		for range n {
			out = append(out, digits[v&63])
			v >>= 6
		}
	}
	for _, at := range [...][3]int{{0, 6, 12}, {1, 7, 13}, {2, 8, 14}, {3, 9, 15}, {4, 10, 5}} {
		write(uint(sum[at[0]])<<16|uint(sum[at[1]])<<8|uint(sum[at[2]]), 4)
	}
	write(uint(sum[11]), 2)
	return string(out)
}
