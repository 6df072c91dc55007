package contender

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// requirements is the file of exact releases, and what their files must be.
const requirements = "requirements.txt"

// completeFile is in a virtual environment that was made to its end.
const completeFile = "complete"

// pythonRemedy is the command that brings Python.
const pythonRemedy = "apt-get install python3-venv"

// python returns the virtual environment with what the requirements in a folder name.
// It is made on first use, and anew for another Python or for other requirements.
func (t *Tools) python(ctx context.Context, folder string) (venv string, err error) {
	file := filepath.Join(folder, requirements)
	wanted, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	which, err := command(ctx, folder, "python3", "-c", "import sys, venv; print(sys.version, sys.base_prefix)")
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", missing("python3", errors.Join(err, lastLineOf(which)).Error(), pythonRemedy)
	}
	const enough = 8 // bytes, to tell a few environments apart
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

// makeVenv makes a virtual environment. It cannot be moved afterwards, as its programs
// name it; a file in it tells that it is whole.
func (t *Tools) makeVenv(ctx context.Context, venv, file string) error {
	t.say("making a virtual environment of Python, and installing what %s names", file)
	out, err := command(ctx, filepath.Dir(file), "python3", "-m", "venv", "--clear", venv)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return missing("python3-venv", errors.Join(err, lastLineOf(out)).Error(), pythonRemedy)
	}
	out, err = command(ctx, filepath.Dir(file), filepath.Join(venv, "bin", "python"), "-m", "pip", "install",
		"--quiet", "--disable-pip-version-check", "--require-hashes", "-r", file)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("pip install -r %s: %w: %w", file, err, lastLineOf(out))
	}
	return os.WriteFile(filepath.Join(venv, completeFile), nil, 0o644)
}

// lastLineOf returns what a program printed last as an error, or nil.
func lastLineOf(out []byte) error {
	if text := lastLine(out); text != "" {
		return errors.New(text)
	}
	return nil
}

// lockEvery is how often a lock that another process holds is asked for.
const lockEvery = 50 * time.Millisecond

// lock holds a file's lock, so that one process makes what others wait for. The
// kernel takes it from a process that dies.
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
