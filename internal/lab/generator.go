package lab

import (
	"context"
	"fmt"

	"github.com/tarehq/tare/internal/lab/sample"
)

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
