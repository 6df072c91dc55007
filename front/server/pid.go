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
//	preparePID   a process that replaces another: FILE.oldbin is the other's, FILE.new its own
//	publishPID   it takes over: FILE.new becomes FILE
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
		if err := s.createPID(path, os.Getpid()); err != nil {
			return err
		}
	}
	s.removePID()
	s.pid = path
	return nil
}

// createPID writes a process ID to a file. Root owns it: anyone else who could change it could
// choose the process that root's "kill $(cat FILE)" ends.
func (s *Server) createPID(path string, id int) error {
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
	_, writeErr := file.WriteString(strconv.Itoa(id) + "\n")
	if err = errors.Join(err, writeErr, file.Close()); err != nil && isRegular {
		_ = safefile.Remove(path) // on a full disk it is empty
	}
	return err
}

// preparePID is writePID for a process that replaces another one. It keeps the other's ID in a
// second file until that process has ended, and its own in a third one, which publishPID renames.
func (s *Server) preparePID(path string) error {
	old, ok := readPID(path)
	if path == "" || !ok || old == 0 {
		return s.writePID(path)
	}
	s.nextPID = path
	err := s.createNewPID(path+oldPIDSuffix, old)
	if err == nil {
		err = s.createNewPID(path+newPIDSuffix, os.Getpid())
	}
	if err != nil {
		_ = safefile.Remove(path + oldPIDSuffix)
		return fmt.Errorf("pid: %w (the user that serves must be able to replace the file)", err)
	}
	return nil
}

// createNewPID is createPID for a new file. It first removes a file of that name. This fails in a
// folder in which publishPID could not rename the file.
func (s *Server) createNewPID(path string, id int) error {
	if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.createPID(path, id)
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

// removeOldPID removes the file of a process that has been replaced, or that could not be. It
// reports whether there was one.
func (s *Server) removeOldPID() bool {
	path := s.pid + oldPIDSuffix
	if id, ok := readPID(path); s.pid == "" || !ok || id != os.Getpid() {
		return false
	}
	if err := safefile.Remove(path); err != nil {
		s.log.print(fmt.Sprintf("pid: cannot remove %s: %v", path, err))
	}
	return true
}

// removeFailedPIDs removes the files of a new process that has failed.
func (s *Server) removeFailedPIDs() {
	s.removeOldPID()
	if s.pid != "" && !s.isReplaced() {
		_ = safefile.Remove(s.pid + newPIDSuffix) // the next upgrade does so, too
	}
}

// removePID removes the file if the current user may do so, unless it holds the ID of another
// process: a successor's.
func (s *Server) removePID() {
	hadOld := s.removeOldPID()
	path := s.pid
	if hadOld && s.isReplaced() {
		path = "" // the file is the other process's, even if it is about to be written
	}
	if s.nextPID != "" { // this process has not taken over
		_ = safefile.Remove(s.nextPID + newPIDSuffix)
		s.nextPID = ""
	}
	s.pid = ""
	if id, ok := readPID(path); path == "" || ok && id != os.Getpid() {
		return
	}
	if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.print(fmt.Sprintf("pid: cannot remove %s: %v", path, err))
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
