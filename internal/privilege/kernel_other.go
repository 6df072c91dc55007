//go:build !linux

package privilege

import (
	"errors"
	"fmt"
	"runtime"
)

// LandlockVersion returns 0: only Linux has Landlock.
func LandlockVersion() int { return 0 }

// Apply fails if the plan changes anything: it is only implemented for Linux.
func (p *Plan) Apply(Folders) (*Outcome, error) {
	if p.changesUser || p.config.Chroot {
		return nil, fmt.Errorf("changing user, group or root requires Linux, not %s (start as the serving user)",
			runtime.GOOS)
	}
	if p.config.Sandbox == Require {
		return nil, errors.New("sandbox is required, but needs Landlock of Linux")
	}
	return &Outcome{UID: p.uid, GID: p.gid, Unconfined: "Landlock requires Linux"}, nil
}
