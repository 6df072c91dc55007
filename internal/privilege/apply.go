package privilege

import (
	"errors"
	"fmt"
	"os"
)

// kernel is what the steps are made of, so that tests can have one that lies.
type kernel interface {
	landlock() int // version of the interface
	noNewPrivs() error
	confine(f Folders) error
	dropCapabilities() error
	chroot(dir *os.File) error
	setGroups(gids []int) error
	setGID(gid int) error
	setUID(uid int) error

	// openProc begins to look at the process; the rest are for after that.
	openProc() error
	closeProc()
	threads() ([]thread, error)
	confined(f Folders) error     // nil if what should not be within reach is not
	regain(gid int) error         // nil if root's identity cannot be had
	openDirs() ([]openDir, error) // but those that belong to kernel
}

// thread is what the kernel says of one.
type thread struct {
	id           int
	uids, gids   [4]int // real, effective, saved, of the file system
	groups       []int
	capabilities uint64 // all sets but the bounding one
	noNewPrivs   bool
}

// openDir is a descriptor that is a folder.
type openDir struct {
	fd   int
	path string
	info os.FileInfo
}

// apply takes the steps in the only order in which they work: whatever needs /proc while it can be reached, whatever
// needs root while the process is root, and the user last.
func (p *Plan) apply(k kernel, folders Folders) (*Outcome, error) {
	out := &Outcome{UID: p.uid, GID: p.gid, User: p.user, Group: p.group, Chroot: p.config.Chroot}
	if err := k.openProc(); err != nil {
		return nil, fmt.Errorf("what this process is cannot be verified without /proc; mount it: %w", err)
	}
	defer k.closeProc()
	if !p.change && p.uid != 0 {
		if err := k.dropCapabilities(); err != nil {
			return nil, fmt.Errorf("capabilities cannot be dropped: %w", err)
		}
	}
	if err := p.confine(k, folders, out); err != nil {
		return nil, err
	}
	if p.config.Chroot {
		if err := k.chroot(folders.Served); err != nil {
			return nil, fmt.Errorf("--chroot: %w", err)
		}
	}
	if p.change {
		if err := p.become(k); err != nil {
			return nil, err
		}
	}
	if err := p.verify(k, folders, out); err != nil {
		return nil, fmt.Errorf("privileges were not dropped as they should be: %w", err)
	}
	return out, nil
}

// confine asks the kernel to.
func (p *Plan) confine(k kernel, folders Folders, out *Outcome) error {
	if p.config.Sandbox == Off {
		return p.mayKeep(folders.Keep)
	}
	version := k.landlock()
	err := k.noNewPrivs()
	if out.NoNewPrivs = err == nil; err == nil && p.config.Reaching {
		return p.mayKeep(folders.Keep)
	}
	if err == nil && version == 0 {
		err = errors.New("this kernel has no Landlock, or does not use it")
	}
	if err == nil {
		if err = k.confine(folders); err == nil {
			out.Landlock = version
			return nil
		}
	}
	if p.config.Sandbox == Require {
		return fmt.Errorf("--sandbox require: %w", err)
	}
	out.Unconfined = err.Error()
	return p.mayKeep(folders.Keep)
}

// mayKeep is an error if folders are kept that lead out of the new root: without Landlock anybody who takes over the
// process could leave by them.
func (p *Plan) mayKeep(keep []Folder) error {
	if p.config.Chroot && len(keep) > 0 {
		return fmt.Errorf("--chroot: without Landlock %q cannot be kept open, it leads out of the root", keep[0].Name())
	}
	return nil
}

// become changes groups, group and user. Each step is needed for the next to be final.
func (p *Plan) become(k kernel) error {
	if err := k.setGroups(nil); err != nil {
		return fmt.Errorf("supplementary groups cannot be dropped: %w", err)
	}
	if err := k.setGID(p.gid); err != nil {
		return fmt.Errorf("--group: cannot become %d: %w", p.gid, err)
	}
	if err := k.setUID(p.uid); err != nil {
		return fmt.Errorf("--user: cannot become %d: %w", p.uid, err)
	}
	return nil
}

// verify is an error unless all is as it should be, in all threads, and stays so.
func (p *Plan) verify(k kernel, folders Folders, out *Outcome) error {
	threads, err := k.threads()
	if err != nil {
		return err
	}
	if len(threads) == 0 {
		return errors.New("/proc shows no thread")
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
		if t.uids[i] != p.uid || p.change && t.gids[i] != p.gid {
			return fmt.Errorf("has users %v and groups %v, want %d and %d", t.uids, t.gids, p.uid, p.gid)
		}
	}
	switch {
	case p.change && len(t.groups) > 0:
		return fmt.Errorf("has supplementary groups %v", t.groups)
	case p.uid != 0 && t.capabilities != 0:
		return fmt.Errorf("has capabilities %#x", t.capabilities)
	case out.NoNewPrivs && !t.noNewPrivs:
		return errors.New("may gain new privileges")
	}
	return nil
}

// verifyDirs is an error if a folder is open that leads out of the root, and is not one of those to keep.
func verifyDirs(k kernel, folders Folders) error {
	known := []os.FileInfo{}
	for _, f := range append([]Folder{{File: folders.Served}}, folders.Keep...) {
		info, err := f.Stat()
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
			return fmt.Errorf("descriptor %d is the folder %q, which leads out of the root; who started this must not leave it open", d.fd, d.path)
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
