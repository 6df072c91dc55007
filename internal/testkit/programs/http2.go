package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Curl returns a curl that supports HTTP/2, and the environment it needs.
func Curl(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "curl", "curl")
}

// unpacked returns the folder of the programs of a Debian package, one of which must run, and the
// environment they need.
func unpacked(t testing.TB, name, program string) (bin string, env []string) {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), name)
	bin, env = filepath.Join(tree.Root, "usr/bin"), tree.Env()
	if err == nil {
		c := exec.Command(filepath.Join(bin, program), "--version")
		c.Env = slices.Concat(os.Environ(), env)
		err = c.Run()
	}
	if err != nil {
		skipMissing(t, name+": "+err.Error())
	}
	return bin, env
}

// AIOQUIC returns a Python interpreter that can import aioquic, which has HTTP/3, and the
// environment it needs.
func AIOQUIC(t testing.TB) (path string, env []string) {
	t.Helper()
	return pythonWith(t, "aioquic==1.7.2", "pylsqpack==1.0.0", "cryptography==50.0.2", "cffi==2.1.1", "pycparser==3.12",
		"pyopenssl==26.4.0", "service_identity==26.1.0", "attrs==26.1.0", "certifi==2026.10.18",
		"typing_extensions==4.16.0", "pyasn1==0.6.5", "pyasn1_modules==0.4.2")
}
