package programs

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

const maxProgramOutput = 8 << 10 // limits how much of a program's output is logged

// Start runs a program until the test ends, and returns once it listens on an address. If the test
// fails, the end of the program's output is logged.
func Start(t testing.TB, network, address string, env []string, path string, args ...string) *testkit.Process {
	t.Helper()
	c := exec.Command(path, args...)
	c.Env = slices.Concat(os.Environ(), env)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	p := testkit.Start(t, c)
	t.Cleanup(func() {
		p.End(t)
		if t.Failed() {
			text := out.String()
			t.Logf("%s: %s", filepath.Base(path), text[max(0, len(text)-maxProgramOutput):])
		}
	})
	awaitListener(t, network, address, filepath.Base(path), p.Done())
	return p
}

func awaitListener(t testing.TB, network, address, name string, exited <-chan struct{}) {
	t.Helper()
	testkit.WaitFor(t, name+" to listen", func() bool {
		select {
		case <-exited:
			t.Fatalf("%s exited", name)
		default:
		}
		nc, err := net.Dial(network, address)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}
