package keypair

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des" //nolint:gosec // keys that are encrypted by it exist
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// maxIterations bounds the time that a password takes. OpenSSL's default is 2048.
const maxIterations = 10_000_000

// errUnsupported is for keys that no password decrypts.
var errUnsupported = errors.New("unsupported encryption of a key (rewrite it with openssl pkcs8 -topk8 -v2 aes256)")

// encryptedKey is an EncryptedPrivateKeyInfo (RFC 5958, 3).
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

// pbes2 are the parameters of PBES2 (RFC 8018, A.4).
type pbes2 struct{ KDF, Cipher pkix.AlgorithmIdentifier }

// pbkdf2Params are the parameters of PBKDF2 (RFC 8018, A.2).
type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

// decryptPKCS8 decrypts a key with PBES2 (RFC 8018, 6.2), as OpenSSL writes it: PBKDF2 with AES or
// triple DES in CBC mode. A wrong password may result in garbage.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var key encryptedKey
	var params pbes2
	var kdf pbkdf2Params
	var iv []byte
	if err := unmarshal(der, &key); err != nil {
		return nil, err
	}
	if id := key.Algorithm.Algorithm.String(); id != "1.2.840.113549.1.5.13" {
		return nil, fmt.Errorf("%w: algorithm %s", errUnsupported, id)
	}
	if err := unmarshal(key.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if id := params.KDF.Algorithm.String(); id != "1.2.840.113549.1.5.12" {
		return nil, fmt.Errorf("%w: key derivation %s", errUnsupported, id)
	}
	if err := unmarshal(params.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, err
	}
	if err := unmarshal(params.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	newBlock, size := blockCipher(params.Cipher.Algorithm.String())
	newHash := hashOf(kdf.PRF.Algorithm.String())
	if newBlock == nil || newHash == nil || kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, fmt.Errorf("%w: cipher %s, function %s, %d iterations", errUnsupported,
			params.Cipher.Algorithm, kdf.PRF.Algorithm, kdf.Iterations)
	}
	derived, err := pbkdf2.Key(newHash, password, kdf.Salt, kdf.Iterations, size)
	if err != nil {
		return nil, err
	}
	block, err := newBlock(derived)
	if err != nil {
		return nil, err
	}
	return decryptCBC(block, iv, key.Data)
}

func unmarshal(der []byte, to any) error {
	if _, err := asn1.Unmarshal(der, to); err != nil {
		return fmt.Errorf("%w: %w", errUnsupported, err)
	}
	return nil
}

// blockCipher returns the cipher of an object identifier, and the size of its keys; nil if it is
// unknown.
func blockCipher(id string) (newBlock func([]byte) (cipher.Block, error), size int) {
	switch id {
	case "2.16.840.1.101.3.4.1.2":
		return aes.NewCipher, 16
	case "2.16.840.1.101.3.4.1.22":
		return aes.NewCipher, 24
	case "2.16.840.1.101.3.4.1.42":
		return aes.NewCipher, 32
	case "1.2.840.113549.3.7":
		return des.NewTripleDESCipher, 24 //nolint:gosec // keys that are encrypted by it exist
	}
	return nil, 0
}

// hashOf returns the hash of PBKDF2's function; nil if it is unknown.
func hashOf(id string) func() hash.Hash {
	return map[string]func() hash.Hash{
		"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New,
		"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
	}[id]
}

// decryptCBC decrypts data with PKCS#7 padding (RFC 5652, 6.3).
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, fmt.Errorf("%w: %d bytes", errUnsupported, len(data))
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	n := int(plain[len(plain)-1])
	if n == 0 || n > size || !bytes.HasSuffix(plain, bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errWrongPassword
	}
	return plain[:len(plain)-n], nil
}
