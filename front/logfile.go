package front

import (
	"github.com/tarehq/tare/front/internal/accesslog"
)

// logFile returns the file of a target, which all plans share. lost makes the line about lost
// lines.
func (c *compiler) logFile(to accesslog.Target, lost func(lines int, why error) []byte) (*accesslog.File, error) {
	key := to.Path
	if to.HasMany { // which is no path
		key = ""
	}
	if f := c.logFiles[key]; f != nil {
		return f, nil
	}
	logger := c.options.logger()
	report := func(text string) { logger.Printf("front: %s: %s", to.Path, printable([]byte(text))) }
	f, release, err := acquire(&c.state.logs, key,
		func() (*accesslog.File, error) { return to.OpenFile(c.options.openLog, report, lost) }, accesslog.CloseSoon)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	if c.logFiles == nil {
		c.logFiles = make(map[string]*accesslog.File)
	}
	c.logFiles[key] = f
	return f, nil
}
