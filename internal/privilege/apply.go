package privilege

import (
	"errors"
	"fmt"
	"os"
)

// kernel performs the steps. Tests replace it with one whose calls do not have their effects.
type kernel interface {
	landlock() int // version of the ABI
	noNewPrivs() error
	confine(f Folders) error
	dropCapabilities() error
	chroot(dir *os.File) error
	setGroups(gids []int) error
	setGID(gid int) error
	setUID(uid int) error

	// openProc opens /proc for the methods below.
	openProc() error
	closeProc()
	threads() ([]thread, error)
	confined(f Folders) error     // nil if files outside are inaccessible
	regain(gid int) error         // nil if root's identity cannot be regained
	openDirs() ([]openDir, error) // except those of the kernel value
}

// thread is the status of a thread.
type thread struct {
	id           int
	uids, gids   [4]int // real, effective, saved, file system
	groups       []int
	capabilities uint64 // union of all sets except the bounding set
	noNewPrivs   bool
}

// openDir is a descriptor of a directory.
type openDir struct {
	fd   int
	path string
	info os.FileInfo
}

// apply performs the steps in the only order in which they work: first what needs /proc, then what
// needs root, and the change of user last.
func (p *Plan) apply(k kernel, folders Folders) (*Outcome, error) {
	out := &Outcome{UID: p.uid, GID: p.gid, User: p.user, Group: p.group, Chroot: p.config.Chroot}
	if err := k.openProc(); err != nil {
		return nil, fmt.Errorf("cannot verify privileges without /proc (mount it): %w", err)
	}
	defer k.closeProc()
	if !p.changesUser && p.uid != 0 {
		if err := k.dropCapabilities(); err != nil {
			return nil, fmt.Errorf("cannot drop capabilities: %w", err)
		}
	}
	if err := p.confine(k, folders, out); err != nil {
		return nil, err
	}
	if p.config.Chroot {
		if err := k.chroot(folders.Served); err != nil {
			return nil, fmt.Errorf("chroot: %w", err)
		}
	}
	if p.changesUser {
		if err := p.changeIDs(k); err != nil {
			return nil, err
		}
	}
	if err := p.verify(k, folders, out); err != nil {
		return nil, fmt.Errorf("privileges were not dropped: %w", err)
	}
	return out, nil
}

// confine makes the kernel confine the process.
func (p *Plan) confine(k kernel, folders Folders, out *Outcome) error {
	if p.config.Sandbox == Off {
		return p.checkKeep(folders.Keep)
	}
	version := k.landlock()
	err := k.noNewPrivs()
	if out.NoNewPrivs = err == nil; err == nil && p.config.Reaching {
		return p.checkKeep(folders.Keep)
	}
	if err == nil && version == 0 {
		err = errors.New("kernel without Landlock, or Landlock is disabled")
	}
	if err == nil {
		if err = k.confine(folders); err == nil {
			out.Landlock = version
			return nil
		}
	}
	if p.config.Sandbox == Require {
		return fmt.Errorf("sandbox is required: %w", err)
	}
	out.Unconfined = err.Error()
	return p.checkKeep(folders.Keep)
}

// checkKeep returns an error if directories outside of the new root are kept. Without Landlock an
// attacker who controls the process could leave the root by them.
func (p *Plan) checkKeep(keep []Folder) error {
	if p.config.Chroot && len(keep) > 0 {
		return fmt.Errorf("chroot: cannot keep %q open without Landlock, because it leads out of the root",
			keep[0].File.Name())
	}
	return nil
}

// changeIDs changes supplementary groups, group and user. Each step makes the next one final.
func (p *Plan) changeIDs(k kernel) error {
	if err := k.setGroups(nil); err != nil {
		return fmt.Errorf("cannot drop supplementary groups: %w", err)
	}
	if err := k.setGID(p.gid); err != nil {
		return fmt.Errorf("cannot change group to %d: %w", p.gid, err)
	}
	if err := k.setUID(p.uid); err != nil {
		return fmt.Errorf("cannot change user to %d: %w", p.uid, err)
	}
	return nil
}

// verify returns an error unless every thread has lost the privileges and cannot regain them.
func (p *Plan) verify(k kernel, folders Folders, out *Outcome) error {
	threads, err := k.threads()
	if err != nil {
		return err
	}
	if len(threads) == 0 {
		return errors.New("no threads in /proc")
	}
	for _, t := range threads {
		if err := p.verifyThread(t, out); err != nil {
			return fmt.Errorf("thread %d %w", t.id, err)
		}
	}
	if p.uid != 0 {
		if err := k.regain(p.gid); err != nil {
			return err
		}
	}
	if out.Landlock > 0 {
		if err := k.confined(folders); err != nil {
			return err
		}
	}
	if p.config.Chroot {
		return verifyDirs(k, folders)
	}
	return nil
}

func (p *Plan) verifyThread(t thread, out *Outcome) error {
	for i := range t.uids {
		if t.uids[i] != p.uid || p.changesUser && t.gids[i] != p.gid {
			return fmt.Errorf("has users %v and groups %v, want %d and %d", t.uids, t.gids, p.uid, p.gid)
		}
	}
	switch {
	case p.changesUser && len(t.groups) > 0:
		return fmt.Errorf("has supplementary groups %v", t.groups)
	case p.uid != 0 && t.capabilities != 0:
		return fmt.Errorf("has capabilities %#x", t.capabilities)
	case out.NoNewPrivs && !t.noNewPrivs:
		return errors.New("may gain new privileges")
	}
	return nil
}

// verifyDirs returns an error if a directory outside of the root is open that is not kept.
func verifyDirs(k kernel, folders Folders) error {
	known := []os.FileInfo{}
	for _, f := range append([]Folder{{File: folders.Served}}, folders.Keep...) {
		info, err := f.File.Stat()
		if err != nil {
			return err
		}
		known = append(known, info)
	}
	dirs, err := k.openDirs()
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !isOneOf(d.info, known) {
			return fmt.Errorf("descriptor %d is the directory %q, which leads out of the root (close it first)", d.fd,
				d.path)
		}
	}
	return nil
}

func isOneOf(info os.FileInfo, known []os.FileInfo) bool {
	for _, k := range known {
		if os.SameFile(info, k) {
			return true
		}
	}
	return false
}
