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

// logMode is the mode of a log that is made: its lines are about people.
const logMode = 0o640

// open opens the folder, the keys and the log. What it complains of is the command line's.
func (s *fileServer) open(env Env, powers *privilege.Plan) error {
	for _, step := range []func() error{s.openDir, s.openKeys, func() error { return s.openLog(env, powers) }, s.openSocketDirs} {
		if err := step(); err != nil {
			return usage(err)
		}
	}
	return nil
}

// openDir opens what is to be served, once: whatever is said of it later is about the folder that was checked.
func (s *fileServer) openDir() (err error) {
	if s.root, err = os.OpenRoot(s.plan.dir); err != nil {
		return noFolder(s.plan.dir, err)
	}
	if s.dir, err = s.root.Open("."); err != nil {
		return noFolder(s.plan.dir, err)
	}
	return s.plan.mayServe(s.dir)
}

// noFolder says what is wrong with what was to be served.
func noFolder(name string, err error) error {
	info, statErr := os.Stat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %q", name)
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("%q is no folder; name the one it is in", name)
	}
	return err
}

// openKeys reads the certificate.
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
	s.certs, err = certs.Open(certs.Config{Cert: s.keys[0], Key: s.keys[1], Say: s.voice.say})
	if err != nil {
		return fmt.Errorf("--cert, --key: %w", err)
	}
	return nil
}

// openLog opens the access log, and starts to write it.
func (s *fileServer) openLog(env Env, powers *privilege.Plan) error {
	config := spool.Config{
		Gather:   gatherLines,
		Patience: logPatience,
		Lost:     s.plan.format.Lost,
		Report:   func(text string) { s.voice.say("access log: " + text) },
	}
	switch s.plan.accessLog {
	case "":
		return nil
	case stdio:
		s.log = spool.New(unclosed{env.Stdout}, config)
		return nil
	}
	file, err := s.openLogFile(powers)
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

// openLogFile opens the log and, if it is a regular file, keeps hold of its folder, so that it can be opened again. What
// is made now belongs to whoever is to write it later.
func (s *fileServer) openLogFile(powers *privilege.Plan) (*os.File, error) {
	path := s.plan.accessLog
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().Type() == fs.ModeNamedPipe:
		// Opened for reading, too, it needs no reader yet, and outlives one that goes.
		file, _, err := safefile.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		return file, err
	case err == nil && !info.Mode().IsRegular():
		file, _, err := safefile.OpenFile(path, logFlags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		return file, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	file, err := createLog(path, powers)
	if err != nil {
		return nil, err
	}
	if s.logFile, err = anchor.New(path); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openSocketDirs keeps hold of the folders of unix sockets, which are removed at the end.
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

// releaseAnchors lets go of the folders that were kept to open files again.
func (s *fileServer) releaseAnchors() {
	for _, a := range s.keys {
		a.Close()
	}
	if s.logFile != nil {
		s.logFile.Close()
	}
}

// close closes what is open. Its error is about log lines that were lost.
func (s *fileServer) close() error {
	for _, l := range s.listeners {
		l.Close()
	}
	if s.handler != nil {
		_ = s.handler.Close() // nothing is served any more
	}
	var err error
	if s.log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), logGrace)
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

// unclosed is a stream that is not ours to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
