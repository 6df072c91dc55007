package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// SSHD returns the path of sshd and the environment it needs.
func SSHD(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("/usr/sbin/sshd"); err == nil {
		return path, nil
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), "openssh-server")
	if err != nil {
		skipMissing(t, "sshd: "+err.Error())
	}
	return filepath.Join(tree.Root, "usr/sbin/sshd"), tree.Env()
}

// SSH returns the path of a program of ssh's client, such as ssh-keygen, and the environment it
// needs.
func SSH(t testing.TB, name string) (path string, env []string) {
	t.Helper()
	return installed(t, name, "openssh-client")
}

// IP returns the path of ip, which sets up networks, and the environment it needs.
func IP(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "ip", "iproute2")
}

// OpenSSL returns the path of openssl, and the environment it needs.
func OpenSSL(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "openssl", "openssl")
}

// installed returns the path of a program of the machine, or of an unpacked Debian package, and the
// environment it needs.
func installed(t testing.TB, name, pack string) (path string, env []string) {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), pack)
	if err != nil {
		skipMissing(t, name+": "+err.Error())
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		if path, err := exec.LookPath(filepath.Join(tree.Root, dir, name)); err == nil {
			return path, tree.Env()
		}
	}
	skipMissing(t, name+": not in its Debian package")
	return "", nil
}
