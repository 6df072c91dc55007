package contender

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const oldestGo = "go1.21" // first version of Go that downloads the version that a module requires

const goRemedy = "apt-get install golang-go"

func (t *Tools) binDir() string { return cmp.Or(t.Bin, filepath.Join(t.Cache, "bin")) }

// withFlags returns the words of a command with GoFlags, if it is one of go's.
func (t *Tools) withFlags(words []string) []string {
	if len(words) < 2 || words[0] != Go {
		return words
	}
	return slices.Concat(words[:2], t.GoFlags, words[2:])
}

// findGo returns an error if Go programs cannot be built. dir is a folder of their module.
func (t *Tools) findGo(ctx context.Context, dir string) error {
	_, err := t.once(ctx, Go, func() (Program, error) { return Program{}, t.checkGo(ctx, dir) })
	return err
}

func (t *Tools) checkGo(ctx context.Context, dir string) error {
	if _, err := exec.LookPath(Go); err != nil {
		return missing(Go, "it is not in PATH", goRemedy)
	}
	if t.NoGo != "" {
		return missing("the source of tare", t.NoGo, "go install github.com/tarehq/tare/cmd/tare@latest")
	}
	// The go command executes the version that the module requires, which it may have to download.
	out, err := (&Command{Dir: dir, Env: t.GoEnv}).Run(ctx, Go, "env", "GOVERSION")
	is := lastLine(out)
	switch {
	case err != nil:
		return missing(Go, is, goRemedy)
	case version.IsValid(is) && version.Compare(is, oldestGo) < 0:
		return missing(Go, is+" is too old", "go install golang.org/dl/go1.26.0@latest")
	}
	return nil
}

// findModules returns an error if modules that a Go program requires can be neither found nor
// downloaded. dir is its folder.
func (t *Tools) findModules(ctx context.Context, dir string) error {
	command := Command{Dir: dir, Env: t.GoEnv}
	list := slices.Concat([]string{"list"}, t.GoFlags, []string{"-deps", "."})
	if _, err := command.Run(ctx, Go, list...); err == nil {
		return nil // it has all packages: the compiler has failed
	}
	out, err := command.Run(ctx, Go, "mod", "download")
	if err == nil {
		return nil
	}
	return missing("a module", lastLine(out), "go -C "+dir+" mod download")
}

// makeTare returns the command tare: built in the checkout, or the running program.
func (t *Tools) makeTare(ctx context.Context) (Program, error) {
	if t.Checkout == "" || t.Program != "" && t.findGo(ctx, t.Checkout) != nil {
		if t.Program == "" {
			return Program{}, missing(Tare, "this program is not tare", "go install github.com/tarehq/tare/cmd/tare@latest")
		}
		return Program{Bin: t.Program}, nil
	}
	bin := filepath.Join(t.binDir(), "tare-command")
	s := &Spec{Title: "the command tare", Dir: t.Checkout, Build: Go + " build -o {bin} ./cmd/tare"}
	return Program{Bin: bin}, t.build(ctx, &Contender{Spec: s, Bin: bin})
}

// useBuiltin lets tare itself be the program of a contender if Go, or what Go needs, is missing. It
// reports whether it can be.
func (t *Tools) useBuiltin(c *Contender, need string, why error) bool {
	if _, ok := errors.AsType[*missingError](why); !ok || need != Go || c.Builtin == "" || t.Program == "" {
		return false
	}
	if len(c.builtin) == 0 {
		t.logf("%s is served by tare itself: %v", c.Title, why)
	}
	c.Bin, c.builtin = t.Program, strings.Fields(c.Builtin)
	return true
}

const requirements = "requirements.txt" // file with the exact versions of packages and their hashes

const completeFile = "complete" // created in a virtual environment when it is complete

const pythonRemedy = "apt-get install python3-venv"

// python returns the virtual environment with the packages of a folder's requirements. It is made
// once for each version of Python and content of the requirements.
func (t *Tools) python(ctx context.Context, folder string) (venv string, err error) {
	file := filepath.Join(folder, requirements)
	wanted, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	which, err := (&Command{Dir: folder}).Run(ctx, "python3", "-c", "import sys, venv; print(sys.version, sys.base_prefix)")
	if err != nil {
		return "", missing("python3", err.Error(), pythonRemedy)
	}
	const enough = 8 // bytes, which distinguish a few environments
	sum := sha256.Sum256(slices.Concat(wanted, which))
	venv = filepath.Join(t.Cache, "python", "venv-"+hex.EncodeToString(sum[:enough]))
	if err := os.MkdirAll(filepath.Dir(venv), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, venv+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(venv, completeFile)); err == nil {
		return venv, nil
	}
	return venv, t.makeVenv(ctx, venv, file)
}

// makeVenv makes a virtual environment. It cannot be made elsewhere and then renamed, because its
// programs contain its path. completeFile marks it as complete instead.
func (t *Tools) makeVenv(ctx context.Context, venv, file string) error {
	t.logf("making a Python virtual environment with the packages of %s", file)
	command := Command{Dir: filepath.Dir(file)}
	_, err := command.Run(ctx, "python3", "-m", "venv", "--clear", venv)
	if err != nil {
		return missing("python3-venv", err.Error(), pythonRemedy)
	}
	_, err = command.Run(ctx, filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet",
		"--disable-pip-version-check", "--require-hashes", "-r", file)
	if err != nil {
		return fmt.Errorf("pip install -r %s: %w", file, err)
	}
	return os.WriteFile(filepath.Join(venv, completeFile), nil, 0o644)
}

const lockEvery = 50 * time.Millisecond // pause between two tries to lock a file

// lock locks a file, so that only one of several processes makes the file. The kernel releases the
// lock when its process dies.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockEvery):
		}
	}
}
