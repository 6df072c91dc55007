package keypair_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// encryptions are the ways in which openssl encrypts a key.
func encryptions() map[string][]string {
	return map[string][]string{
		"aes256": {"pkcs8", "-topk8"}, "aes128": {"pkcs8", "-topk8", "-v2", "aes128"},
		"aes192": {"pkcs8", "-topk8", "-v2", "aes192"}, "3des": {"pkcs8", "-topk8", "-v2", "des3"},
		"sha1":     {"pkcs8", "-topk8", "-v2", "aes256", "-v2prf", "hmacWithSHA1"},
		"sha384":   {"pkcs8", "-topk8", "-v2", "aes256", "-v2prf", "hmacWithSHA384"},
		"sha512":   {"pkcs8", "-topk8", "-v2", "aes256", "-v2prf", "hmacWithSHA512"},
		"rfc1423":  {"ec", "-aes128"},
		"rfc1423d": {"ec", "-des3"},
	}
}

// encrypted returns a key that openssl has encrypted with a password.
func encrypted(t testing.TB, plain []byte, password string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "plain"), filepath.Join(dir, "encrypted")
	testkit.Must(t, os.WriteFile(in, plain, 0o600))
	path, env := programs.Installed(t, "openssl", "openssl")
	command := exec.CommandContext(t.Context(), path, append(args, "-in", in, "-out", out, "-passout", "pass:"+password)...)
	command.Env = append(os.Environ(), env...)
	testkit.Succeeds(t, command)
	return testkit.Value(os.ReadFile(out))(t)
}

// Keys that openssl has encrypted are decrypted by the right password of several.
func TestEncryptedKeysOfOpenSSL(t *testing.T) {
	testkit.Long(t, "it starts programs")
	cert, plain := tlstest.SelfSign(t, x509.Certificate{})
	for name, args := range encryptions() {
		key := encrypted(t, plain, "right one", args...)
		testkit.Contains(t, string(key), "ENCRYPTED", name)
		for _, c := range []struct{ passwords, fault string }{
			{"right one", ""}, {"wrong\r\n\r\nright one\r\n", ""}, {"wrong\nright one", ""},
			{"", "no password is configured"}, {"\n\n", "no password is configured"},
			{"wrong\nright", "none of the passwords fits"},
		} {
			pair, err := keypair.Parse(cert, key, keypair.Passwords([]byte(c.passwords)))
			switch {
			case c.fault == "" && (err != nil || pair.PrivateKey == nil):
				t.Errorf("%s, %q: %v", name, c.passwords, err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("%s, %q: %v, want %q", name, c.passwords, err, c.fault)
			}
		}
		// of a key that is cut or changed anywhere, an error and no panic
		for i := 0; i < len(key); i += 7 {
			changed := []byte(string(key))
			changed[i] ^= 2
			_, _ = keypair.Parse(cert, changed, "right one")
			if _, err := keypair.Parse(cert, key[:i], "right one"); err == nil && i < len(key)-30 {
				t.Errorf("%s: no error for %d of %d bytes", name, i, len(key))
			}
		}
	}
}

// Keys without encryption need no password, and ignore one.
func TestPlainKeys(t *testing.T) {
	cert, key := tlstest.SelfSign(t, x509.Certificate{})
	for _, passwords := range []string{"", "any"} {
		testkit.Value(keypair.Parse(cert, append([]byte("text\n"), key...), passwords))(t)
	}
	testkit.Fails(keypair.Parse(cert, nil, "any"))(t, "", "without a key")
}

// A file that is half written is an error, as in nginx: the chain would end too early.
func TestChainThatIsCutOff(t *testing.T) {
	leaf, key := tlstest.SelfSign(t, x509.Certificate{})
	issuer, _ := tlstest.SelfSign(t, x509.Certificate{})
	chain := slices.Concat(leaf, []byte("text\n"), issuer)
	if pair, err := keypair.Parse(chain, key, ""); err != nil || len(pair.Certificate) != 2 {
		t.Fatalf("the whole chain: %d certificates, %v", len(pair.Certificate), err)
	}
	const begin, end = len("-----BEGIN"), len("-----\n")
	for i := len(leaf) + len("text\n") + begin; i <= len(chain)-end; i++ {
		if pair, err := keypair.Parse(chain[:i], key, ""); err == nil {
			t.Fatalf("%d of %d bytes are %d certificates", i, len(chain), len(pair.Certificate))
		}
	}
	testkit.Fails(keypair.Parse(append(issuer[:100:100], leaf...), key, ""))(t, "", "behind half a certificate")
}

// A method that is not supported is an error that names it.
func TestUnsupportedEncryption(t *testing.T) {
	cert, plain := tlstest.SelfSign(t, x509.Certificate{})
	key := encrypted(t, plain, "a", "pkcs8", "-topk8", "-scrypt")
	testkit.Fails(keypair.Parse(cert, key, "a"))(t, "key derivation 1.3.6")
}

// maxFuzzedIterations keeps an input of the fuzzer quick: the limit of keys allows seconds.
const maxFuzzedIterations = 5000

// FuzzEncryptedKey checks that whatever is in place of an encrypted key is an error or a key, and
// that a key is returned for the password of its certificate only.
func FuzzEncryptedKey(f *testing.F) {
	cert, plain := tlstest.SelfSign(f, x509.Certificate{})
	for _, args := range encryptions() {
		block, _ := pem.Decode(encrypted(f, plain, "a", args...))
		f.Add(block.Type, block.Headers["DEK-Info"], block.Bytes, "a")
	}
	f.Fuzz(func(t *testing.T, kind, info string, der []byte, passwords string) {
		block := &pem.Block{Type: kind, Bytes: der}
		if info != "" {
			block.Headers = map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": info}
		}
		key := pem.EncodeToMemory(block)
		if key == nil || keypair.IterationsOf(der) > maxFuzzedIterations {
			return
		}
		pair, err := keypair.Parse(cert, key, passwords)
		testkit.Equal(t, err == nil, pair.PrivateKey != nil, key, err)
	})
}
