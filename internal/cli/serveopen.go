package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tarehq/tare/front/spool"
	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/certs"
	"github.com/tarehq/tare/internal/privilege"
	"github.com/tarehq/tare/internal/safefile"
)

// logMode is the mode of new logs, which hold personal data.
const logMode = 0o640

// open opens the folder, the keys and the log. Its errors are usage errors.
func (s *fileServer) open(env Env, privileges *privilege.Plan) error {
	for _, step := range []func() error{s.openDir, s.openKeys, func() error { return s.openLog(env, privileges) },
		s.openSocketDirs} {
		if err := step(); err != nil {
			return usageError(err)
		}
	}
	return nil
}

// openDir opens the served folder once, so all later checks apply to the same folder.
func (s *fileServer) openDir() (err error) {
	if s.root, err = os.OpenRoot(s.plan.dir); err != nil {
		return dirError(s.plan.dir, err)
	}
	if s.dir, err = s.root.Open("."); err != nil {
		return dirError(s.plan.dir, err)
	}
	return s.plan.checkServable(s.dir)
}

// dirError explains why a folder cannot be opened.
func dirError(name string, err error) error {
	info, statErr := os.Stat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("no such folder: %q", name)
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("%q is not a folder (pass the folder that it is in)", name)
	}
	return err
}

// openKeys reads the certificate and its key.
func (s *fileServer) openKeys() (err error) {
	if s.plan.cert == "" {
		return nil
	}
	for _, path := range []string{s.plan.cert, s.plan.key} {
		a, err := anchor.New(path)
		if err != nil {
			return fmt.Errorf("--cert, --key: %w", err)
		}
		s.keys = append(s.keys, a)
	}
	s.certs, err = certs.Open(certs.Config{Cert: s.keys[0], Key: s.keys[1], Log: s.stderrLog.print})
	if err != nil {
		return fmt.Errorf("--cert, --key: %w", err)
	}
	return nil
}

// openLog opens the access log and starts its writer.
func (s *fileServer) openLog(env Env, privileges *privilege.Plan) error {
	config := spool.Config{
		Gather:   logFlushInterval,
		Patience: logWriteTimeout,
		Lost:     s.plan.format.Lost,
		Report:   func(text string) { s.stderrLog.print("access log: " + text) },
	}
	switch s.plan.accessLog {
	case "":
		return nil
	case stdio:
		s.log = spool.New(nopCloser{env.Stdout}, config)
		return nil
	}
	file, err := s.openLogFile(privileges)
	if err != nil {
		return fmt.Errorf("--access-log: %w", err)
	}
	if s.logFile != nil {
		config.Open = func() (io.WriteCloser, error) { return s.logFile.Open(logFlags|os.O_CREATE, logMode) }
	}
	s.log = spool.New(file, config)
	return nil
}

const logFlags = os.O_WRONLY | os.O_APPEND

// openLogFile opens the log. If it is a regular file, openLogFile also keeps its folder open, so
// that the log can be reopened. A new file is owned by the user that will write it.
func (s *fileServer) openLogFile(privileges *privilege.Plan) (*os.File, error) {
	path := s.plan.accessLog
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().Type() == fs.ModeNamedPipe:
		// Opened for reading and writing, the pipe needs no reader yet and survives one
		// that exits.
		file, _, err := safefile.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		return file, err
	case err == nil && !info.Mode().IsRegular():
		file, _, err := safefile.OpenFile(path, logFlags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		return file, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	file, err := createLog(path, privileges)
	if err != nil {
		return nil, err
	}
	if s.logFile, err = anchor.New(path); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openSocketDirs keeps the folders of unix sockets open to remove the sockets at the end.
func (s *fileServer) openSocketDirs() error {
	if s.plan.privilege.Chroot {
		return nil
	}
	for _, spec := range s.plan.listeners {
		if spec.Network != "unix" || strings.HasPrefix(spec.Address, "@") {
			continue
		}
		dir, err := os.Open(filepath.Dir(spec.Address))
		if err != nil {
			return fmt.Errorf("--listen %s: %w", spec, err)
		}
		s.socketDirs = append(s.socketDirs, dir)
	}
	return nil
}

// releaseAnchors closes the folders that were kept to reopen files.
func (s *fileServer) releaseAnchors() {
	for _, a := range s.keys {
		a.Close()
	}
	if s.logFile != nil {
		s.logFile.Close()
	}
}

// close closes everything. Its error reports lost log lines.
func (s *fileServer) close() error {
	for _, l := range s.listeners {
		l.Close()
	}
	if s.handler != nil {
		_ = s.handler.Close() // no request uses it any more
	}
	var err error
	if s.log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
		defer cancel()
		if err = s.log.Close(ctx); err != nil {
			err = fmt.Errorf("access log: %w", err)
		}
	}
	s.releaseAnchors()
	for _, dir := range append(s.socketDirs, s.dir) {
		dir.Close()
	}
	if s.root != nil {
		_ = s.root.Close()
	}
	return err
}

// nopCloser is a stream that another owner closes.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// createLog opens a log file. A new file is owned by the user that will write it, unless a symbolic
// link led to it.
func createLog(path string, privileges *privilege.Plan) (*os.File, error) {
	file, how, err := safefile.OpenFile(path, logFlags|os.O_CREATE, logMode)
	if err != nil {
		return nil, err
	}
	if uid, gid, ok := privileges.IDs(); ok && how.Created && !how.Linked {
		if err := file.Chown(uid, gid); err != nil {
			file.Close()
			return nil, err
		}
	}
	return file, nil
}
