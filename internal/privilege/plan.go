// Package privilege gives up what a server no longer needs once it listens: the rest of the file system,
// root's identity, its groups, and what the kernel can be told to refuse. Then it verifies that nothing of that can
// be had again, in any thread.
//
// There is a Config, which is what somebody wants; a Plan, for which users were looked up while that is possible;
// Folders, which stay within reach; and an Outcome, which says what the kernel has really done.
package privilege

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// Sandbox says whether the kernel is asked to confine the process beyond its user: no new privileges by execve
// (PR_SET_NO_NEW_PRIVS), and Landlock, which leaves it no files but those named here and no new TCP connections.
type Sandbox string

const (
	// Auto confines as far as the kernel can.
	Auto Sandbox = "auto"
	// Require fails where it cannot.
	Require Sandbox = "require"
	// Off does not confine.
	Off Sandbox = "off"
)

// ParseSandbox finds a Sandbox by its name.
func ParseSandbox(name string) (Sandbox, error) {
	switch s := Sandbox(name); s {
	case Auto, Require, Off:
		return s, nil
	}
	return "", fmt.Errorf("%q: want %s, %s or %s", name, Auto, Require, Off)
}

// Config is what is wanted.
type Config struct {
	// User and Group are names or numbers to become. Without User nothing of that changes; without Group it
	// is the user's own. Supplementary groups are dropped.
	User, Group string

	// Chroot makes the folder that is served the root. It needs a User that is not root, who could leave.
	Chroot bool

	Sandbox Sandbox

	// Reaching leaves files and connections within reach, for who asks others and reads files that are not known yet: of what
	// Sandbox would do it has new privileges refused only.
	Reaching bool
}

// Folders are those that stay within reach. They are given open, and stay the caller's.
type Folders struct {
	// Served may be read, and all below it.
	Served *os.File
	// Keep are others.
	Keep []Folder
}

// Folder is one that stays within reach, and for what.
type Folder struct {
	*os.File
	For Access
}

// Access is what may be done to the files of a folder.
type Access uint8

const (
	// Read is reading files.
	Read Access = 1 << iota
	// Write is writing files, and making them.
	Write
	// Remove is removing files.
	Remove
)

// A Plan is a Config whose names were looked up: once the root has changed, nobody can.
type Plan struct {
	config   Config
	change   bool // of user and group
	uid, gid int
	user     string
	group    string
}

// NewPlan looks up the user and the group. Its errors are about what config asks for.
func NewPlan(config Config) (*Plan, error) {
	p := &Plan{config: config, change: config.User != ""}
	if err := p.lookUp(); err != nil {
		return nil, err
	}
	switch {
	case config.Group != "" && !p.change:
		return nil, errors.New("--group: it goes with --user; give both")
	case config.Chroot && (!p.change || p.uid == 0):
		return nil, errors.New("--chroot: root can leave it; give a --user that is not root")
	case (p.change || config.Chroot) && os.Geteuid() != 0:
		return nil, errors.New("--user, --group and --chroot: only root can do that; start as root, or leave them out")
	}
	return p, nil
}

func (p *Plan) lookUp() error {
	if !p.change {
		p.uid, p.gid = os.Geteuid(), os.Getegid()
		return nil
	}
	u, err := lookUpUser(p.config.User)
	if err != nil {
		return err
	}
	group := p.config.Group
	if group == "" && u.Gid == "" {
		return fmt.Errorf("--user: %q has no group of its own; add --group", p.config.User)
	}
	p.user = u.Username
	if p.uid, err = number(u.Uid); err != nil {
		return fmt.Errorf("--user: %w", err)
	}
	g, err := lookUpGroup(group, u.Gid)
	if err != nil {
		return err
	}
	p.group = g.Name
	if p.gid, err = number(g.Gid); err != nil {
		return fmt.Errorf("--group: %w", err)
	}
	return nil
}

// lookUpUser finds a user by name, or by number. A number need not be anybody's.
func lookUpUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if _, numErr := number(name); numErr == nil {
		if u, err := user.LookupId(name); err == nil {
			return u, nil
		}
		return &user.User{Uid: name, Username: name}, nil
	}
	return nil, fmt.Errorf("--user: %w; want a name or a number that this system knows", trim(err))
}

// lookUpGroup finds a group by name or number, or else by the number of the user's own.
func lookUpGroup(name, own string) (*user.Group, error) {
	if name == "" {
		if g, err := user.LookupGroupId(own); err == nil {
			return g, nil
		}
		return &user.Group{Gid: own, Name: own}, nil
	}
	g, err := user.LookupGroup(name)
	if err == nil {
		return g, nil
	}
	if _, numErr := number(name); numErr == nil {
		if g, err := user.LookupGroupId(name); err == nil {
			return g, nil
		}
		return &user.Group{Gid: name, Name: name}, nil
	}
	return nil, fmt.Errorf("--group: %w; want a name or a number that this system knows", trim(err))
}

// trim makes the errors of package user read like ours.
func trim(err error) error {
	if u, ok := errors.AsType[user.UnknownUserError](err); ok {
		return fmt.Errorf("unknown user %q", string(u))
	}
	if g, ok := errors.AsType[user.UnknownGroupError](err); ok {
		return fmt.Errorf("unknown group %q", string(g))
	}
	return err
}

// number is a user's or a group's. The highest stands for none in system calls.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is no number of a user or a group", text)
	}
	return int(n), nil
}

// IDs are the numbers to become; ok is false if nothing is to change.
func (p *Plan) IDs() (uid, gid int, ok bool) { return p.uid, p.gid, p.change }

// Outcome is what the process has become.
type Outcome struct {
	UID, GID    int
	User, Group string // empty if nothing changed
	Chroot      bool
	NoNewPrivs  bool
	Landlock    int    // the version of its interface; 0 is without
	Unconfined  string // why without, if it was not told to be
}
