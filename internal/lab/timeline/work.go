package timeline

import (
	"fmt"
	"time"
)

// Limits of what counts as the server's doing.
const (
	// maxLateShare is the share of their timeout by which requests may be sent late.
	maxLateShare = 0.1
	// maxStolenShare is the share of the processors' time that other virtual machines may have.
	maxStolenShare = 0.05
)

// Work is what the processors did during a case.
type Work struct {
	Cores   int           `json:"cores"`
	Length  time.Duration `json:"lengthNs"`
	Server  time.Duration `json:"serverNs"`  // CPU time of the case's processes that live at its end
	Clients time.Duration `json:"clientsNs"` // CPU time of the lab
	Busy    time.Duration `json:"busyNs"`    // of all processors, also for interrupts; 0 if unknown
	Stolen  time.Duration `json:"stolenNs"`  // of that, what other virtual machines had
}

// Share returns a CPU time as a share of all processors.
func (w *Work) Share(of time.Duration) float64 {
	if w.Cores == 0 || w.Length <= 0 {
		return 0
	}
	return float64(of) / float64(w.Length) / float64(w.Cores)
}

// Latest returns how late a request was sent, at most.
func (c *Case) Latest() time.Duration {
	total := c.Total()
	return total.Sum().Latest
}

// Disturbance returns why the losses and times of a case may not be the server's fault, or "". The
// timeout is that of a request.
func (c *Case) Disturbance(timeout time.Duration) string {
	w, late := &c.Work, c.Latest()
	isLate := float64(late) > maxLateShare*float64(timeout)
	if !isLate && w.Share(w.Stolen) <= maxStolenShare {
		return ""
	}
	return fmt.Sprintf("clients sent requests up to %d ms late; the processors were %.0f %% busy: server %.0f %%, "+
		"clients %.0f %%, other virtual machines %.0f %%", late.Round(time.Millisecond).Milliseconds(),
		100*w.Share(w.Busy), 100*w.Share(w.Server), 100*w.Share(w.Clients), 100*w.Share(w.Stolen))
}
