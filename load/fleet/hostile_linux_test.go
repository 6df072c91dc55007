package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

// bendEnv is how an agent's records are falsified.
const bendEnv = "TARE_TEST_BEND"

// bender is an agent's output that falsifies records. The agent writes one at a time.
type bender struct {
	to  io.Writer
	how string
}

func (b bender) Write(line []byte) (int, error) {
	bent := line
	switch {
	case b.how == "no pong" && bytes.Contains(line, []byte(`"pong"`)):
		return len(line), nil
	case b.how == "far second":
		bent = bytes.Replace(line, []byte(`"second":{"index":0`), []byte(`"second":{"index":30000000`), 1)
	case b.how == "long result":
		bent = regexp.MustCompile(`"seconds":[0-9.]+`).ReplaceAll(line, []byte(`"seconds":9e9`))
	case b.how == "samples" && bytes.Contains(line, []byte(`"began"`)):
		bent = []byte(`{"samples":[[0,0,0,0,0,0,0,0,0,0,0,0]]}` + "\n")
	case b.how == "escapes" && bytes.Contains(line, []byte(`"began"`)):
		bent = []byte(`{"error":{"kind":"failed","text":"\u001b[2J` + strings.Repeat("x", 9000) + `"}}` + "\n")
	}
	_, err := b.to.Write(bent)
	return len(line), err
}

// An agent whose records are false is lost, with the reason, and does not harm the others.
func TestFalseRecordsLoseTheAgent(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, err := os.Executable()
	testkit.Must(t, err)
	url, _ := server(t)
	for how, want := range map[string]string{
		"no pong":     "replied to no ping",
		"far second":  "reported second 30000000, which has not begun",
		"long result": "a result of 9e+09 s",
		"samples":     "more than the 0 samples",
		"escapes":     "[2Jxxx",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			bad := fleet.Host{Name: "bad", Command: func(context.Context) (*exec.Cmd, error) {
				c := exec.Command(own, "agent")
				c.Env = append(os.Environ(), bendEnv+"="+how)
				return c, nil
			}}
			hosts := []fleet.Host{fleet.Local("good", own), bad}
			f, err := fleet.Open(context.Background(), hosts, fleet.Options{OnLoss: fleet.Continue})
			testkit.Must(t, err)
			defer f.Close()
			r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Pace: load.Constant(100),
				Duration: 1500 * time.Millisecond})
			if err != nil || len(r.Parts) != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			if good := r.Parts[0]; good.Lost != "" || good.Requests == 0 {
				t.Errorf("%+v", good)
			}
			lost := r.Parts[1].Lost
			if !strings.Contains(lost, want) || strings.Contains(lost, "\x1b") || len(lost) > 5000 {
				t.Errorf("%q, want %q", lost, want)
			}
		})
	}
}

// A login shell may print much, and may not end its last line.
func TestLoginShellsMayPrint(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, _ := programFor(t, 0)
	elsewhere(t, "Linux", ownMachine(t))
	bin := strings.Split(os.Getenv("PATH"), ":")[0]
	text, err := os.ReadFile(filepath.Join(bin, "ssh"))
	testkit.Must(t, err)
	noisy := strings.Replace(string(text), "exec sh", "seq 10000; printf Welcome; exec sh", 1)
	testkit.Must(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(noisy), 0o755))
	f, err := fleet.Open(context.Background(), []fleet.Host{fleet.SSH("h", []*fleet.Program{own})}, fleet.Options{})
	testkit.Must(t, err)
	f.Close()
}

// A command that is interrupted receives SIGTERM first: ssh then restores the terminal. One that
// ignores it is killed.
func TestCommandsCanRestoreTheTerminal(t *testing.T) {
	testkit.Long(t, "it starts agents")
	restored, ready := filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "ready")
	testkit.Must(t, syscall.Mkfifo(ready, 0o600))
	for _, script := range []string{
		// wait ends at once when a signal arrives
		`trap 'echo >"$RESTORED"; kill $!; exit' TERM; sleep 600 & echo ready >"$READY"; wait`,
		`trap '' TERM; echo ready >"$READY"; while :; do sleep 0.1; done`,
	} {
		host := fleet.Host{Name: "h", Command: func(context.Context) (*exec.Cmd, error) {
			c := exec.Command("sh", "-c", script)
			c.Env = append(os.Environ(), "RESTORED="+restored, "READY="+ready)
			return c, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			if text, err := os.ReadFile(ready); string(text) != "ready\n" {
				t.Errorf("%q, %v", text, err)
			}
		}()
		if _, err := fleet.Open(ctx, []fleet.Host{host}, fleet.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a host that never responds: %v", err)
		}
	}
	if _, err := os.Stat(restored); err != nil {
		t.Error(err)
	}
}
