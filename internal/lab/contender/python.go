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

// requirements is the file with the exact versions of packages and their hashes.
const requirements = "requirements.txt"

// completeFile is created in a virtual environment when it is complete.
const completeFile = "complete"

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

// lockEvery is the pause between two tries to lock a file.
const lockEvery = 50 * time.Millisecond

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
