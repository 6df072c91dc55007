package lab

import (
	"context"
	"fmt"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
)

// host returns the address on which contenders listen; "" is the loopback address.
func (w *runner) host() string {
	if w.Generator == nil {
		return ""
	}
	return w.Generator.Address
}

// useGenerator measures the network to the generator's machine, if it is another one, and lets the
// bench use it.
func (w *runner) useGenerator(ctx context.Context) error {
	if w.Generator == nil {
		return nil
	}
	link, err := w.Generator.Link(ctx)
	if err != nil {
		return fmt.Errorf("measure the network to %s: %w", w.Generator.Host, err)
	}
	w.bench.Generator, w.run.Link = w.Generator, link
	w.recorder.Note("%s", link.Text())
	return nil
}

// addTwin lets the control take part again, under another name: its difference is chance.
func (w *runner) addTwin(control sample.Entrant, c *contender.Contender) {
	e := control
	e.Name, e.Kind, e.Title = twin, sample.Twin, control.Title+" ("+twin+")"
	w.run.Entrants = append(w.run.Entrants, e)
	w.contenders[twin] = c
}

// carriedShare is the share of the network's bandwidth from which on it may limit the rate.
const carriedShare = 0.8

// checkLink warns of a record whose responses almost fill the network.
func (w *runner) checkLink(rec *sample.Record) {
	if w.run.Link == nil || rec.Load == nil {
		return
	}
	perSecond := float64(rec.Load.Bytes) / max(rec.Load.Seconds, 1e-9)
	if share := perSecond / w.run.Link.FromServers; share > carriedShare && !w.isLinkFull {
		w.isLinkFull = true
		w.recorder.Warn("the network may limit the rate: the responses of %s fill %.0f %% of it", w.run.TitleOf(rec.Contender),
			100*share)
	}
}

// reachable returns why the generator cannot reach a contender, or "".
func (w *runner) reachable(place contender.Place) string {
	if w.Generator != nil && place.Network() == "unix" {
		return fmt.Sprintf("it listens on a unix socket, which %s cannot reach", w.Generator.Host)
	}
	return ""
}
