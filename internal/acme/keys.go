package acme

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errNoKey = errors.New("no private key in PEM (PKCS #8, PKCS #1 or EC)")

// checkKeyType returns an error if a type is unknown.
func checkKeyType(t string) error {
	switch keyTypeOf(t) {
	case "ecdsa:256", "ecdsa:384", "ecdsa:521", "rsa:2048", "rsa:3072", "rsa:4096":
		return nil
	}
	return fmt.Errorf("unknown key type %q (must be ecdsa:256, ecdsa:384, ecdsa:521, rsa:2048, rsa:3072 or rsa:4096)", t)
}

// newKey returns a new key of a known type.
func newKey(t string) (crypto.Signer, error) {
	switch t = keyTypeOf(t); t {
	case "ecdsa:256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ecdsa:384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ecdsa:521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	}
	bits, err := strconv.Atoi(strings.TrimPrefix(t, "rsa:"))
	if err != nil {
		return nil, err
	}
	return rsa.GenerateKey(rand.Reader, bits)
}

// encodeKey returns a key in PEM (PKCS #8).
func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// decodeKey returns the first key in PEM.
func decodeKey(text []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errNoKey
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errNoKey
	}
}

// keyTypeOf returns a type with the size that is missing.
func keyTypeOf(t string) string {
	switch t {
	case "", "ecdsa":
		return "ecdsa:256"
	case "rsa":
		return "rsa:2048"
	}
	return t
}
