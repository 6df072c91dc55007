package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/safefile"
)

// The PID file names the process that serves, and FILE.oldbin one that finishes its requests after
// another has replaced it.
//
//	writePID     start, and a reload with another path
//	preparePID   a process that replaces another writes FILE.new
//	publishPID   it takes over: FILE.new becomes FILE
//	keepPID      the other process, which finishes its requests, writes FILE.oldbin
//	removePID    the end: removes what belongs to this process

// oldPIDSuffix ends the name of the file with the ID of a process that another one has replaced, as
// in nginx.
const oldPIDSuffix = ".oldbin"

// newPIDSuffix ends the name of a file that is about to replace the PID file.
const newPIDSuffix = ".new"

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

// createPID writes the process ID to a file. Root owns it: anyone else who could change it could
// choose the process that root's "kill $(cat FILE)" ends.
func (s *Server) createPID(path string) error {
	const mode = 0o644
	flags := os.O_RDWR | os.O_CREATE | os.O_TRUNC // a named pipe opened O_WRONLY needs a reader
	file, how, err := safefile.OpenFile(path, flags, mode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	isRegular := err == nil && info.Mode().IsRegular()
	if isRegular && os.Geteuid() == 0 {
		if !how.Created && !how.Trusted { // another process may have it open
			file.Close()
			if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	if err = errors.Join(err, writeErr, file.Close()); err != nil && isRegular {
		_ = safefile.Remove(path) // on a full disk it is empty
	}
	return err
}

// preparePID is writePID for a process that replaces another one. publishPID renames the file.
func (s *Server) preparePID(path string) error {
	if id, ok := readPID(path); path == "" || !ok || id == 0 {
		return s.writePID(path)
	}
	s.nextPID = path
	if err := s.createNewPID(path + newPIDSuffix); err != nil {
		return fmt.Errorf("pid: %w (the user that serves must be able to replace the file)", err)
	}
	return nil
}

// createNewPID is createPID for a new file. It first removes a file of that name. This fails in a
// folder in which publishPID could not rename the file.
func (s *Server) createNewPID(path string) error {
	if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.createPID(path)
}

// publishPID replaces the file of the process that this one has replaced, at once: readers find one
// or the other.
func (s *Server) publishPID() {
	if s.nextPID == "" {
		return
	}
	s.pid, s.nextPID = s.nextPID, ""
	if err := os.Rename(s.pid+newPIDSuffix, s.pid); err != nil {
		s.log.print("pid: cannot replace the file: " + err.Error())
	}
}

// keepPID writes a second file once another process has replaced this one.
func (s *Server) keepPID() {
	if _, ok := readPID(s.pid); !ok || s.pid == "" {
		return
	}
	if err := s.createNewPID(s.pid + oldPIDSuffix); err != nil {
		s.log.print("pid: " + err.Error())
	}
}

// removePID removes the files if the current user may do so, unless they hold the ID of another
// process, or are about to: a successor's.
func (s *Server) removePID() {
	if s.nextPID != "" { // this process has not taken over
		_ = safefile.Remove(s.nextPID + newPIDSuffix)
		s.nextPID = ""
	}
	if s.pid == "" {
		return
	}
	files := []string{s.pid + oldPIDSuffix}
	if _, isReplaced := readPID(s.pid + newPIDSuffix); !isReplaced {
		files = append(files, s.pid)
	}
	s.pid = ""
	for _, path := range files {
		if id, ok := readPID(path); ok && id != os.Getpid() {
			continue
		}
		if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.print(fmt.Sprintf("pid: cannot remove %s: %v", path, err))
		}
	}
}

// readPID returns the process ID in a file, or 0 if it contains something else. It does not read
// pipes, which would block.
func readPID(path string) (id int, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	id, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	return id, true
}
