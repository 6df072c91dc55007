package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/safefile"
)

// writePID replaces the PID file; an empty path means none.
func (s *Server) writePID(path string) error {
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
func (s *Server) createPID(path string) error {
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
			s.log.print(fmt.Sprintf("warning: pid: users other than root may write to the folder of %s and could replace the file", path))
		}
	}
	_, writeErr := file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return errors.Join(err, writeErr, file.Close())
}

// maxPID is more than the digits of a process ID and a line end.
const maxPID = 32

// removePID removes the file if the current user may do so, unless it holds the ID of another
// process: a successor's.
func (s *Server) removePID() {
	path := s.pid
	if s.pid = ""; path == "" || !holdsOwnPID(path) {
		return
	}
	if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.print(fmt.Sprintf("pid: cannot remove %s: %v", path, err))
	}
}

// holdsOwnPID reports whether a file holds this process's ID, or something unreadable.
func holdsOwnPID(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // a pipe would block
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxPID))
	return err != nil || strings.TrimSpace(string(b)) == strconv.Itoa(os.Getpid())
}
