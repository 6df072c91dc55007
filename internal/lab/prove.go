package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// prove starts every contender once and compares its response with the expected one and with the
// control's. Contenders with differences that the experiment does not declare are left out.
func (w *runner) prove(ctx context.Context) error {
	w.recorder.Log("comparing the responses of all contenders")
	var control []*equal.Response // by w.requests
	for i := range w.run.Entrants {
		e := &w.run.Entrants[i]
		c := w.contenders[e.Name]
		if c == nil {
			continue
		}
		if !w.comparable() {
			return nil // the control was left out
		}
		all, err := w.request(ctx, e, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.leaveOut(e, err.Error())
			continue
		}
		response := all[0]
		e.Response = response
		if wrong := w.experiment.Expect.wrong(response); wrong != "" {
			w.leaveOut(e, wrong)
			continue
		}
		if e.Kind == sample.Control {
			control = all
			w.bench.Statuses = []int{response.Status}
			w.keepBodies(all)
			if !response.KeepAlive && w.experiment.Load.PerConnection != 1 {
				w.recorder.Note("%s closes its connection after each response, so that each of its requests pays for a new one.", e.Title)
			}
			w.noteTLS(all)
		}
		if control != nil {
			w.compare(e, control, all)
		}
	}
	return nil
}

// errNoControl ends a run whose control was left out.
var errNoControl = errors.New("the control failed, so nothing can be compared; the reason is above")

// request starts a contender, sends each of w.requests and stops it.
func (w *runner) request(ctx context.Context, e *sample.Entrant, c *contender.Contender) ([]*equal.Response, error) {
	r, err := w.bench.Stage.Start(ctx, c, w.bench.Setting(w.run.Conditions[0]), equal.Ready(c, w.bench.Request))
	if err != nil {
		return nil, err
	}
	if w.Generator != nil && r.Place().Network() == "unix" {
		return nil, errors.Join(fmt.Errorf("it listens on a unix socket, which %s cannot reach", w.Generator.Host), r.Stop())
	}
	var all []*equal.Response
	for _, request := range w.requests() {
		response, fetchErr := equal.Fetch(ctx, r.Place(), request)
		if err = fetchErr; err != nil {
			break
		}
		all = append(all, response)
	}
	w.written[r.Name] = r.Files
	err = errors.Join(err, r.Stop())
	if c.Deaf = r.Stayed; r.Stayed {
		w.recorder.Note("%s does not end on SIGTERM. It is killed each time.", e.Title)
	}
	if len(r.Left) > 0 {
		w.recorder.Note("%s leaves processes behind on SIGTERM: %s. They are killed, too.", e.Title, contender.Names(r.Left))
	}
	return all, err
}

// noteTLS adds a note of what was negotiated by TLS. Contenders with something else are left out.
func (w *runner) noteTLS(all []*equal.Response) {
	var texts []string
	for _, a := range all {
		if a.TLS != "" && !slices.Contains(texts, a.TLS) {
			texts = append(texts, a.TLS)
		}
	}
	if len(texts) > 0 {
		w.recorder.Note("All contenders negotiated %s.", strings.Join(texts, "; "))
	}
}

func (w *runner) leaveOut(e *sample.Entrant, why string) {
	e.Absent = why
	delete(w.contenders, e.Name)
	w.recorder.Log("left out: %s: %s", e.Title, why)
	w.recorder.Save()
}

// check returns a *yamlfile.Error for an invalid expectation.
func (x *Expectation) check(f *yamlfile.File) error {
	sum, err := hex.DecodeString(x.SHA256)
	switch {
	case x.By != "" && x.By != ByControl && x.By != ByStatus:
		return f.Fault("$.expect.by", "by %q: want %s or %s, or leave it out", x.By, ByControl, ByStatus)
	case x.By == ByControl && (x.Status != 0 || x.Body != "" || x.SHA256 != ""):
		return f.Fault("$.expect", "expect: by %s excludes status, body and sha256", ByControl)
	case x.By != ByControl && x.Status == 0:
		return f.Fault("$.expect", "expect: status is missing")
	case x.SHA256 != "" && (x.Body != "" || x.By != ""):
		return f.Fault("$.expect.sha256", "sha256: want only one of sha256, body and by")
	case x.SHA256 != "" && (err != nil || len(sum) != sha256.Size):
		return f.Fault("$.expect.sha256", "sha256 %q: want %d hexadecimal digits", x.SHA256, 2*sha256.Size)
	}
	return nil
}

// wrong describes how a response differs from the expected one, or returns "".
func (x *Expectation) wrong(a *equal.Response) string {
	sum := sha256.Sum256(a.Body)
	switch got := hex.EncodeToString(sum[:]); {
	case x.By == ByControl && a.Status >= http.StatusBadRequest:
		return fmt.Sprintf("responds with status %d and body %.60q: request another path or host, or expect status %d",
			a.Status, a.Body, a.Status)
	case x.By == ByControl:
		return ""
	case a.Status != x.Status:
		return fmt.Sprintf("responds with status %d, not %d", a.Status, x.Status)
	case x.SHA256 != "" && !strings.EqualFold(got, x.SHA256):
		return fmt.Sprintf("responds with a body whose SHA-256 is %s, not %s: %d bytes, %.60q", got, strings.ToLower(x.SHA256), len(a.Body), a.Body)
	case x.SHA256 == "" && x.By == "" && string(a.Body) != x.Body:
		return fmt.Sprintf("responds with body %.60q, not %.60q", a.Body, x.Body)
	}
	return ""
}

const anyField = "fields" // stands in a Differ for all header fields

// declared returns why a contender's response may have a difference, if the experiment declares it.
func (e *Experiment) declared(contender string, d equal.Difference) (why string, ok bool) {
	if e.Expect.By == ByStatus && (d.What == "body" || d.What == "body length") {
		return "any body is right", true
	}
	for _, x := range e.Differs {
		concerns := len(x.Contenders) == 0 || slices.Contains(x.Contenders, contender)
		if concerns && (x.What == d.What || x.What == anyField && strings.HasPrefix(d.What, "field ")) {
			return x.Why, true
		}
	}
	return "", false
}

// body returns the body of every response; nil if bodies may differ.
func (e *Experiment) body(control *equal.Response) []byte {
	mayDiffer := func(d Differ) bool { return strings.HasPrefix(d.What, "body") }
	if e.Expect.By == ByStatus || slices.ContainsFunc(e.Differs, mayDiffer) {
		return nil
	}
	return append([]byte{}, control.Body...)
}

func (w *runner) addDifferences(e *sample.Entrant, all []equal.Difference) {
	for _, d := range all {
		known := func(r sample.DeclaredDifference) bool { return r.Difference == d }
		why, ok := w.experiment.declared(e.Name, d)
		switch {
		case !ok && !slices.Contains(e.Differences, d):
			e.Differences = append(e.Differences, d)
		case ok && !slices.ContainsFunc(e.Declared, known):
			e.Declared = append(e.Declared, sample.DeclaredDifference{Difference: d, Why: why})
		}
	}
}

func (w *runner) compare(e *sample.Entrant, control, got []*equal.Response) {
	for i := range control {
		w.addDifferences(e, equal.Compare(control[i], got[i]))
	}
	switch {
	case len(e.Differences) == 0:
	case e.Kind == sample.Twin && w.experiment.Expect.By == ByControl:
		w.leaveOut(e, "it is the control's copy, and responds differently: "+e.Differences[0].String()+
			". If responses change from request to request, expect only their status, "+fmt.Sprint(control[0].Status))
	default:
		w.leaveOut(e, "its response differs from the control's: "+e.Differences[0].String())
	}
}
