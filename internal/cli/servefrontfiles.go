package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/spool"
	"github.com/tarehq/tare/internal/privilege"
	"github.com/tarehq/tare/internal/safefile"
)

// logFiles opens log files. prepared holds those that were opened while the process had privileges.
type logFiles struct {
	stdout   io.Writer
	mu       sync.Mutex
	prepared map[string]*os.File
}

func newLogFiles(stdout io.Writer) *logFiles {
	return &logFiles{stdout: stdout, prepared: make(map[string]*os.File)}
}

// prepare opens files for the user that will write them.
func (b *logFiles) prepare(paths []string, privileges *privilege.Plan) error {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue // opened when needed
		}
		file, err := createLog(path, privileges)
		if err != nil {
			return err
		}
		b.prepared[path] = file
	}
	return nil
}

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

// open opens a log.
func (b *logFiles) open(path string) (io.WriteCloser, error) {
	switch path {
	case "/dev/stdout":
		return nopCloser{b.stdout}, nil
	case "/dev/stderr", "stderr":
		return nopCloser{os.Stderr}, nil
	}
	b.mu.Lock()
	file := b.prepared[path]
	delete(b.prepared, path)
	b.mu.Unlock()
	if file != nil {
		return file, nil
	}
	file, _, err := safefile.OpenFile(path, logFlags|os.O_CREATE, logMode)
	return file, err
}

func (b *logFiles) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, file := range b.prepared {
		file.Close()
		delete(b.prepared, path)
	}
}

// logPaths returns the paths of logs that are known at the start, without duplicates.
func logPaths(result *nginxconf.Result) []string {
	var paths []string
	add := func(path string) {
		if path != "" && path != "stderr" && !strings.Contains(path, "$") && !strings.HasPrefix(path, "/dev/") &&
			!slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	errorLog := func(l *conf.ErrorLog) {
		for ; l != nil; l = l.Next {
			add(l.Path)
		}
	}
	errorLog(result.Process.ErrorLog)
	for p := range result.Config.Places() {
		for _, l := range p.Settings.Logs {
			add(l.Path)
		}
		errorLog(p.Settings.ErrorLog)
	}
	return paths
}

// cacheMode is the mode of new cache folders.
const cacheMode = 0o700

// prepareCaches creates the folders of caches and makes the serving user their owner, also of
// existing ones, as nginx does.
func prepareCaches(all []conf.Cache, privileges *privilege.Plan) error {
	for i := range all {
		dir := all[i].Dir
		if dir == "" {
			continue
		}
		err := error(nil)
		if uid, _, ok := privileges.IDs(); ok {
			err = safefile.GiveDir(dir, cacheMode, uid)
		} else {
			err = cache.MakeDir(dir)
		}
		if err != nil {
			return fmt.Errorf("cache %q: %w", all[i].Name, err)
		}
	}
	return nil
}

// errorFile writes a server's errors to files and to standard error.
type errorFile struct {
	stderrLog stderrLog
	toStderr  bool // errors also go to standard error
	files     []leveledFile
}

// leveledFile is a file for errors of a minimum severity.
type leveledFile struct {
	*spool.Spool
	severeOnly bool // only errors more severe than "error"
}

// isSevere reports whether a level excludes errors of requests.
func isSevere(level string) bool { return level == "crit" || level == "alert" || level == "emerg" }

func openErrorFile(l *conf.ErrorLog, logs *logFiles, v stderrLog) (*errorFile, error) {
	e := &errorFile{stderrLog: v, toStderr: l == nil}
	for ; l != nil; l = l.Next {
		if l.Path == "stderr" {
			e.toStderr = true
			continue
		}
		path := l.Path
		file, err := logs.open(path)
		if err != nil {
			e.close(context.Background())
			return nil, err
		}
		e.files = append(e.files, leveledFile{severeOnly: isSevere(l.Level), Spool: spool.New(file, spool.Config{
			Patience: logWriteTimeout,
			Open:     func() (io.WriteCloser, error) { return logs.open(path) },
			Lost: func(n int, why error) []byte {
				return fmt.Appendf(nil, "tare: %d log lines lost: %v\n", n, why)
			},
			Report: func(text string) { v.print("error log: " + text) },
		})})
	}
	return e, nil
}

func (e *errorFile) logger() *log.Logger {
	if len(e.files) == 0 {
		return e.stderrLog.logger()
	}
	return log.New(e, "", log.LstdFlags)
}

// Write implements io.Writer. It writes a line to each file whose severity matches. The handler
// marks errors of requests.
func (e *errorFile) Write(line []byte) (int, error) {
	ordinary := bytes.Contains(line, []byte(" front: [error] "))
	for _, f := range e.files {
		if !ordinary || !f.severeOnly {
			_, _ = f.Write(line) // a Spool's Write never fails
		}
	}
	if e.toStderr {
		e.stderrLog.print(strings.TrimRight(string(line), "\n"))
	}
	return len(line), nil
}

func (e *errorFile) reopen(ctx context.Context) error {
	var all []error
	for _, f := range e.files {
		all = append(all, f.Reopen(ctx))
	}
	return errors.Join(all...)
}

func (e *errorFile) close(ctx context.Context) {
	if e == nil {
		return
	}
	for _, f := range e.files {
		_ = f.Close(ctx) // there is nowhere to report it
	}
}

// writePID replaces the PID file; an empty path means none.
func (s *frontServer) writePID(path string) error {
	if path == s.pid {
		return nil
	}
	if path != "" {
		if err := s.createPID(path); err != nil {
			return err
		}
	}
	s.removePID()
	s.pid = path
	return nil
}

// createPID writes the file. Root owns it: anyone else who could change it could choose the process
// that root's "kill $(cat FILE)" ends.
func (s *frontServer) createPID(path string) error {
	const mode = 0o644
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	file, how, err := safefile.OpenFile(path, flags, mode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && os.Geteuid() == 0 && info.Mode().IsRegular() {
		if !how.Created && !how.Trusted { // another process may have it open
			file.Close()
			if err := safefile.Remove(path); err != nil {
				return err
			}
			if file, how, err = safefile.OpenFile(path, flags, mode); err != nil {
				return err
			}
			if !how.Created {
				file.Close()
				return fmt.Errorf("%s: another user has just created it: want a folder that only root may write to",
					path)
			}
		}
		err = errors.Join(file.Chown(0, 0), file.Chmod(mode))
		if !how.Trusted {
			s.stderrLog.print(fmt.Sprintf("warning: pid: users other than root may write to the folder of %s and could replace the file", path))
		}
	}
	_, writeErr := file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return errors.Join(err, writeErr, file.Close())
}

// removePID removes the file if the current user may do so.
func (s *frontServer) removePID() {
	if s.pid == "" {
		return
	}
	if err := safefile.Remove(s.pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.stderrLog.print(fmt.Sprintf("pid: cannot remove %s: %v", s.pid, err))
	}
	s.pid = ""
}

// limits applies the file's settings of the process.
func (s *frontServer) limits(process *nginxconf.Process) {
	if process.Workers > 0 {
		runtime.GOMAXPROCS(process.Workers)
	}
	if process.Files == 0 {
		return
	}
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err == nil {
		limit.Cur, limit.Max = process.Files, max(process.Files, limit.Max)
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		s.stderrLog.print(fmt.Sprintf("warning: worker_rlimit_nofile %d: %v: limit unchanged", process.Files, err))
	}
}
