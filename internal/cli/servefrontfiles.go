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

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/spool"
	"github.com/tarehq/tare/internal/privilege"
	"github.com/tarehq/tare/internal/safefile"
)

// logBook opens files of logs. Those that were prepared were opened with privileges that are gone by then.
type logBook struct {
	stdout io.Writer
	mu     sync.Mutex
	ready  map[string]*os.File
}

func newLogBook(stdout io.Writer) *logBook {
	return &logBook{stdout: stdout, ready: make(map[string]*os.File)}
}

// prepare opens files for whoever is to write them.
func (b *logBook) prepare(paths []string, powers *privilege.Plan) error {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue // it is opened when it is needed
		}
		file, err := createLog(path, powers)
		if err != nil {
			return err
		}
		b.ready[path] = file
	}
	return nil
}

// createLog opens the file of a log. A new one belongs to whoever is to write it, unless a symbolic link led there.
func createLog(path string, powers *privilege.Plan) (*os.File, error) {
	file, how, err := safefile.OpenFile(path, logFlags|os.O_CREATE, logMode)
	if err != nil {
		return nil, err
	}
	if uid, gid, ok := powers.IDs(); ok && how.Created && !how.Linked {
		if err := file.Chown(uid, gid); err != nil {
			file.Close()
			return nil, err
		}
	}
	return file, nil
}

// open opens a log.
func (b *logBook) open(path string) (io.WriteCloser, error) {
	switch path {
	case "/dev/stdout":
		return unclosed{b.stdout}, nil
	case "/dev/stderr", "stderr":
		return unclosed{os.Stderr}, nil
	}
	b.mu.Lock()
	file := b.ready[path]
	delete(b.ready, path)
	b.mu.Unlock()
	if file != nil {
		return file, nil
	}
	file, _, err := safefile.OpenFile(path, logFlags|os.O_CREATE, logMode)
	return file, err
}

func (b *logBook) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, file := range b.ready {
		file.Close()
		delete(b.ready, path)
	}
}

// logPaths are the files of logs that are known from the start, each once.
func logPaths(result *nginxconf.Result) []string {
	var paths []string
	add := func(path string) {
		if path != "" && path != "stderr" && !strings.Contains(path, "$") && !strings.HasPrefix(path, "/dev/") && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	errorLog := func(l *front.ErrorLog) {
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

// cacheMode is the mode of folders that are made for caches.
const cacheMode = 0o700

// prepareCaches makes the folders of caches, and gives them to the user who serves, as nginx does: also those that are there.
func prepareCaches(all []cache.Config, powers *privilege.Plan) error {
	for i := range all {
		dir := all[i].Dir
		if dir == "" {
			continue
		}
		err := error(nil)
		if uid, _, ok := powers.IDs(); ok {
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

// errorFile is where a server writes its errors: files, and where it says all else.
type errorFile struct {
	voice voice
	said  bool // errors are said there, too
	files []leveledFile
}

// leveledFile is a file for errors that are grave enough.
type leveledFile struct {
	*spool.Spool
	grave bool // only errors that are graver than "error"
}

// isGrave reports whether a level leaves out errors of requests.
func isGrave(level string) bool { return level == "crit" || level == "alert" || level == "emerg" }

func openErrorFile(l *front.ErrorLog, logs *logBook, v voice) (*errorFile, error) {
	e := &errorFile{voice: v, said: l == nil}
	for ; l != nil; l = l.Next {
		if l.Path == "stderr" {
			e.said = true
			continue
		}
		path := l.Path
		file, err := logs.open(path)
		if err != nil {
			e.close(context.Background())
			return nil, err
		}
		e.files = append(e.files, leveledFile{grave: isGrave(l.Level), Spool: spool.New(file, spool.Config{
			Patience: logPatience,
			Open:     func() (io.WriteCloser, error) { return logs.open(path) },
			Lost:     func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d lines lost here: %v\n", n, why) },
			Report:   func(text string) { v.say("error log: " + text) },
		})})
	}
	return e, nil
}

func (e *errorFile) logger() *log.Logger {
	if len(e.files) == 0 {
		return e.voice.logger()
	}
	return log.New(e, "", log.LstdFlags)
}

// Write implements io.Writer. It writes a line to each file, but for errors of requests, which the handler marks so, to those for what is
// graver.
func (e *errorFile) Write(line []byte) (int, error) {
	ordinary := bytes.Contains(line, []byte(" front: [error] "))
	for _, f := range e.files {
		if !ordinary || !f.grave {
			_, _ = f.Write(line) // it never fails
		}
	}
	if e.said {
		e.voice.say(strings.TrimRight(string(line), "\n"))
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
		_ = f.Close(ctx) // nobody is left to tell
	}
}

// writePID writes the process's number to a file, "" for none, in place of the last one.
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

// createPID writes the file. It is root's, and stays so: whoever can change it chooses what root's "kill $(cat FILE)" ends.
func (s *frontServer) createPID(path string) error {
	const mode = 0o644
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	file, how, err := safefile.OpenFile(path, flags, mode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && os.Geteuid() == 0 && info.Mode().IsRegular() {
		if !how.Created && !how.Trusted { // it may be open elsewhere
			file.Close()
			if err := safefile.Remove(path); err != nil {
				return err
			}
			if file, how, err = safefile.OpenFile(path, flags, mode); err != nil {
				return err
			}
			if !how.Created {
				file.Close()
				return fmt.Errorf("%s: somebody else has just made it: want a folder in which only root may write", path)
			}
		}
		err = errors.Join(file.Chown(0, 0), file.Chmod(mode))
		if !how.Trusted {
			s.voice.say(fmt.Sprintf("warning: pid: others than root may write in the folder of %s, and have it name another process", path))
		}
	}
	_, writeErr := file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return errors.Join(err, writeErr, file.Close())
}

// removePID removes the file, if whoever this process has become may do that.
func (s *frontServer) removePID() {
	if s.pid == "" {
		return
	}
	if err := safefile.Remove(s.pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.voice.say(fmt.Sprintf("pid: %s is left: %v", s.pid, err))
	}
	s.pid = ""
}

// limits sets what the file says of the process.
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
		s.voice.say(fmt.Sprintf("warning: worker_rlimit_nofile %d: %v: the limit stays what it is", process.Files, err))
	}
}
