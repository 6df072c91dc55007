package cli

import (
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
		_, statErr := os.Stat(path)
		file, err := os.OpenFile(path, logFlags|os.O_CREATE, logMode)
		if err != nil {
			return err
		}
		b.ready[path] = file
		if uid, gid, ok := powers.IDs(); ok && errors.Is(statErr, fs.ErrNotExist) {
			if err := file.Chown(uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
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
	return os.OpenFile(path, logFlags|os.O_CREATE, logMode)
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
		if l != nil {
			add(l.Path)
		}
	}
	settings := func(s *front.Settings) {
		for _, l := range s.Logs {
			add(l.Path)
		}
		errorLog(s.ErrorLog)
	}
	var locations func(all []front.Location)
	locations = func(all []front.Location) {
		for i := range all {
			settings(&all[i].Settings)
			locations(all[i].Locations)
		}
	}
	errorLog(result.Process.ErrorLog)
	for i := range result.Config.Hosts {
		settings(&result.Config.Hosts[i].Defaults)
		locations(result.Config.Hosts[i].Locations)
	}
	return paths
}

// prepareCaches makes the folders of caches, and gives them to the user who serves, as nginx does: also those that are there.
func prepareCaches(all []cache.Config, powers *privilege.Plan) error {
	for i := range all {
		dir := all[i].Dir
		if dir == "" {
			continue
		}
		if err := cache.MakeDir(dir); err != nil {
			return fmt.Errorf("cache %q: %w", all[i].Name, err)
		}
		if uid, _, ok := powers.IDs(); ok {
			if err := giveTo(dir, uid); err != nil {
				return fmt.Errorf("cache %q: %w", all[i].Name, err)
			}
		}
	}
	return nil
}

// giveTo makes a user a folder's owner, with all access to it.
func giveTo(dir string, uid int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != uid {
		if err := os.Chown(dir, uid, -1); err != nil {
			return err
		}
	}
	const all = 0o700
	if mode := info.Mode().Perm(); mode&all != all {
		return os.Chmod(dir, mode|all)
	}
	return nil
}

// errorFile is where a server says its errors: a file, or where it says all else.
type errorFile struct {
	voice voice
	file  *spool.Spool // nil if there is none
}

func openErrorFile(l *front.ErrorLog, logs *logBook, v voice) (*errorFile, error) {
	e := &errorFile{voice: v}
	if l == nil || l.Path == "stderr" {
		return e, nil
	}
	file, err := logs.open(l.Path)
	if err != nil {
		return nil, err
	}
	e.file = spool.New(file, spool.Config{
		Open: func() (io.WriteCloser, error) { return logs.open(l.Path) },
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d lines lost here: %v\n", n, why) },
		Say:  func(text string) { v.say("error log: " + text) },
	})
	return e, nil
}

func (e *errorFile) logger() *log.Logger {
	if e.file == nil {
		return e.voice.logger()
	}
	return log.New(e.file, "", log.LstdFlags)
}

func (e *errorFile) reopen(ctx context.Context) error {
	if e.file == nil {
		return nil
	}
	return e.file.Reopen(ctx)
}

func (e *errorFile) close(ctx context.Context) {
	if e != nil && e.file != nil {
		_ = e.file.Close(ctx) // nobody is left to tell
	}
}

// writePID writes the process's number to a file, "" for none, in place of the last one.
func (s *frontServer) writePID(path string) error {
	if path == s.pid {
		return nil
	}
	if path != "" {
		if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
			return err
		}
		if uid, gid, ok := s.powers.IDs(); ok && os.Geteuid() == 0 {
			if err := os.Chown(path, uid, gid); err != nil { // who can empty it if he cannot remove it
				return err
			}
		}
	}
	s.removePID()
	s.pid = path
	return nil
}

// removePID removes the file, or at least what is in it.
func (s *frontServer) removePID() {
	if s.pid == "" {
		return
	}
	if err := os.Remove(s.pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := os.Truncate(s.pid, 0); err != nil {
			s.voice.say(fmt.Sprintf("%s is left: %v", s.pid, err))
		}
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
