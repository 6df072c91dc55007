package core

import (
	"fmt"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/errorlog"
)

// LogFile returns the file of a target, which all plans share. lost makes the line about lost
// lines.
func (c *Compiler) LogFile(to accesslog.Target, lost func(lines int, why error) []byte) (*accesslog.File, error) {
	key := to.Path
	if to.HasMany { // which is no path
		key = ""
	}
	if f := c.logFiles[key]; f != nil {
		return f, nil
	}
	logger := c.Options.Logger()
	if to.AtOnce { // an error log does not report its own failures to itself
		logger = c.Options.programLog().Logger
	}
	report := func(text string) { logger.Printf("front: %s: %s", to.Path, errorlog.Printable([]byte(text))) }
	state := c.State
	f, err := AcquireForPlan(c, &state.Logs, key,
		func() (*accesslog.File, error) { return to.OpenFile(c.Options.OpenLog, report, lost) },
		func(f *accesslog.File) {
			if err := accesslog.CloseSoon(f); err != nil {
				err = fmt.Errorf("log %s: %w", to.Path, err)
				state.logFailure.CompareAndSwap(nil, &err)
			}
		})
	if err != nil {
		return nil, err
	}
	if c.logFiles == nil {
		c.logFiles = make(map[string]*accesslog.File)
	}
	c.logFiles[key] = f
	return f, nil
}
