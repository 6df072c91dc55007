// Package privilege gives up what a server no longer needs once it listens: access to other files,
// root's user and group, and what the kernel can be configured to forbid. It then verifies in all
// threads that the process cannot regain any of it.
//
// A Config holds the settings. A Plan is a Config whose users have been looked up while that is
// possible. Folders are the directories that stay accessible. An Outcome reports what the kernel
// has done.
package privilege

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// Sandbox selects whether the kernel confines the process beyond its user: no new privileges by
// execve (PR_SET_NO_NEW_PRIVS), and Landlock, which allows only the files in Folders and no new TCP
// connections.
type Sandbox string

const (
	// Auto confines as far as the kernel can.
	Auto Sandbox = "auto"
	// Require fails if the kernel cannot.
	Require Sandbox = "require"
	// Off does not confine. Its name is "off", or "".
	Off Sandbox = ""
)

// ParseSandbox returns the Sandbox with a name.
func ParseSandbox(name string) (Sandbox, error) {
	switch s := Sandbox(name); s {
	case Auto, Require, Off:
		return s, nil
	case "off":
		return Off, nil
	}
	return Off, fmt.Errorf("%q: want %s, %s or off", name, Auto, Require)
}

// Config holds the settings.
type Config struct {
	// User and Group are the names or numbers to change to. Without User neither is changed;
	// without Group it is the user's own group. Supplementary groups are dropped.
	User, Group string

	// Chroot makes the served directory the root directory. It requires a User other than root,
	// because root could leave it.
	Chroot bool

	Sandbox Sandbox

	// Reaching keeps files and connections accessible, for a server that uses upstreams and
	// reads files that are not known yet. Of Sandbox only "no new privileges" then applies.
	Reaching bool
}

// Folders are the directories that stay accessible. The caller opens and closes them.
type Folders struct {
	// Served is readable, with everything below it.
	Served *os.File
	// Keep are other directories.
	Keep []Folder
}

// Folder is a directory that stays accessible, and how.
type Folder struct {
	File *os.File
	For  Access
}

// Access is a set of rights for the files of a directory.
type Access uint8

const (
	// Read allows reading files.
	Read Access = 1 << iota
	// Write allows writing and creating files.
	Write
	// Remove allows removing files.
	Remove
)

// A Plan is a Config whose names have been looked up, which is impossible after a chroot.
type Plan struct {
	config      Config
	changesUser bool // user and group are changed
	uid, gid    int
	user        string
	group       string
}

// NewPlan looks up the user and the group. Its errors are about config.
func NewPlan(config Config) (*Plan, error) {
	p := &Plan{config: config, changesUser: config.User != ""}
	if err := p.lookUp(); err != nil {
		return nil, err
	}
	switch {
	case config.Group != "" && !p.changesUser:
		return nil, errors.New("group requires a user (set both)")
	case config.Chroot && (!p.changesUser || p.uid == 0):
		return nil, errors.New("chroot requires a user other than root, because root can leave it")
	case (p.changesUser || config.Chroot) && os.Geteuid() != 0:
		return nil, errors.New("only root can change user, group or root directory (start as root, or do not set them)")
	}
	return p, nil
}

func (p *Plan) lookUp() error {
	if !p.changesUser {
		p.uid, p.gid = os.Geteuid(), os.Getegid()
		return nil
	}
	u, err := lookUpUser(p.config.User)
	if err != nil {
		return err
	}
	group := p.config.Group
	if group == "" && u.Gid == "" {
		return fmt.Errorf("user %q has no group of its own (set a group)", p.config.User)
	}
	p.user = u.Username
	if p.uid, err = parseID(u.Uid); err != nil {
		return fmt.Errorf("user: %w", err)
	}
	g, err := lookUpGroup(group, u.Gid)
	if err != nil {
		return err
	}
	p.group = g.Name
	if p.gid, err = parseID(g.Gid); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	return nil
}

// lookUpUser returns the user with a name or a number. A number need not belong to any user.
func lookUpUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if _, numErr := parseID(name); numErr == nil {
		if u, err := user.LookupId(name); err == nil {
			return u, nil
		}
		return &user.User{Uid: name, Username: name}, nil
	}
	return nil, fmt.Errorf("%w (want a name or number known to this system)", rewordError(err))
}

// lookUpGroup returns the group with a name or a number. If name is empty, it returns the user's
// own group.
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
	if _, numErr := parseID(name); numErr == nil {
		if g, err := user.LookupGroupId(name); err == nil {
			return g, nil
		}
		return &user.Group{Gid: name, Name: name}, nil
	}
	return nil, fmt.Errorf("%w (want a name or number known to this system)", rewordError(err))
}

// rewordError rewords the errors of package user.
func rewordError(err error) error {
	if u, ok := errors.AsType[user.UnknownUserError](err); ok {
		return fmt.Errorf("unknown user %q", string(u))
	}
	if g, ok := errors.AsType[user.UnknownGroupError](err); ok {
		return fmt.Errorf("unknown group %q", string(g))
	}
	return err
}

// parseID parses a user's or a group's number. The highest number stands for none in system calls.
func parseID(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("invalid user or group number %q", text)
	}
	return int(n), nil
}

// IDs returns the user and the group to change to. ok is false if neither is changed.
func (p *Plan) IDs() (uid, gid int, ok bool) { return p.uid, p.gid, p.changesUser }

// Outcome reports the privileges that the process has left.
type Outcome struct {
	UID, GID    int
	User, Group string // empty if not changed
	Chroot      bool
	NoNewPrivs  bool
	Landlock    int    // version of its ABI; 0 if not in use
	Unconfined  string // why Landlock is not in use, unless it is off
}
