//go:build !linux

package privilege

import (
	"errors"
	"fmt"
	"runtime"
)

// LandlockVersion is 0: only Linux has it.
func LandlockVersion() int { return 0 }

// Apply fails if the plan is to change anything: how that is done for good is known here of Linux only.
func (p *Plan) Apply(Folders) (*Outcome, error) {
	if p.change || p.config.Chroot {
		return nil, fmt.Errorf("--user, --group and --chroot need Linux, not %s: start as the user that is to serve", runtime.GOOS)
	}
	if p.config.Sandbox == Require {
		return nil, errors.New("--sandbox require: it needs Linux's Landlock")
	}
	return &Outcome{UID: p.uid, GID: p.gid, Unconfined: "Landlock is Linux's"}, nil
}
