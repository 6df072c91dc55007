package keypair_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/internal/testkit"
)

// maxFuzzedIterations keeps an input of the fuzzer quick: the limit of keys allows seconds.
const maxFuzzedIterations = 5000

// FuzzEncryptedKey checks that whatever is in place of an encrypted key is an error or a key, and
// that a key is returned for the password of its certificate only.
func FuzzEncryptedKey(f *testing.F) {
	cert, plain := testkit.SelfSign(f, x509.Certificate{})
	dir := f.TempDir()
	in, out := filepath.Join(dir, "plain"), filepath.Join(dir, "encrypted")
	testkit.Must(f, os.WriteFile(in, plain, 0o600))
	for _, args := range encryptions() {
		openssl(f, append(args, "-in", in, "-out", out, "-passout", "pass:a")...)
		key := testkit.Value(os.ReadFile(out))(f)
		block, _ := pem.Decode(key)
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
