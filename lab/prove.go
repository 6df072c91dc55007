package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/yamlfile"
)

// slowStart is how long a contender may take until it answers without a word of it.
const slowStart = time.Second

// prove starts every contender once and compares its answer with what is expected
// and with the control's. Those that differ undeclared take no part.
func (w *weighing) prove(ctx context.Context) error {
	w.say("asking every contender what it answers")
	var control *equal.Response
	for i := range w.run.Entrants {
		e := &w.run.Entrants[i]
		c := w.contenders[e.Name]
		if c == nil {
			continue
		}
		if !w.comparable() {
			return nil // nothing can be weighed any more
		}
		answer, err := w.ask(ctx, e, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.leaveOut(e, err.Error())
			continue
		}
		e.Response = answer
		if wrong := cmp.Or(w.experiment.Expect.wrong(answer), w.experiment.wrongSize(e.Name, answer)); wrong != "" {
			w.leaveOut(e, wrong)
			continue
		}
		if e.Kind == report.Control {
			control = answer
			w.bench.Statuses, w.bench.Body = []int{answer.Status}, w.experiment.body(answer)
			w.noteClosing(e)
		}
		if control != nil {
			w.compare(e, control)
		}
	}
	return nil
}

// errNoControl is why a run ends when its control takes no part, or no longer.
var errNoControl = errors.New("the control could not be measured, and without it nothing can be compared; see why above")

// ask runs a contender for as long as it takes to ask it.
func (w *weighing) ask(ctx context.Context, e *report.Entrant, c *contender.Contender) (*equal.Response, error) {
	r, err := w.bench.Stage.Start(ctx, c, w.bench.Setting(w.run.Conditions[0]), w.bench.Ready(c))
	if err != nil {
		return nil, err
	}
	answer, err := equal.Fetch(ctx, r.Place(), w.bench.Request)
	w.written[r.Name] = r.Files
	err = errors.Join(err, r.Stop())
	if r.Took > slowStart {
		w.note("%s took %v until it answered.", e.Title, r.Took.Round(100*time.Millisecond))
	}
	if c.Deaf = r.Stayed; r.Stayed {
		w.note("%s does not end when it is told to (SIGTERM). It is killed each time.", e.Title)
	}
	if len(r.Left) > 0 {
		w.note("%s leaves processes behind when it is told to end: %s. They are ended, too.", e.Title, contender.Names(r.Left))
	}
	return answer, err
}

// noteClosing tells of a control that keeps no connection, though it was asked to: each of its
// requests pays for one.
func (w *weighing) noteClosing(e *report.Entrant) {
	if !e.Response.KeepAlive && w.experiment.Load.PerConnection != 1 {
		w.note("%s closes its connection after an answer: every request to it alone pays for a new one.", e.Title)
	}
}

func (w *weighing) leaveOut(e *report.Entrant, why string) {
	e.Absent = why
	delete(w.contenders, e.Name)
	w.say("left out: %s: %s", e.Title, why)
}

// check returns the fault of an expectation that cannot be met.
func (x *Expectation) check(f *yamlfile.File) error {
	switch {
	case x.By != "" && x.By != ByControl && x.By != ByStatus:
		return f.Fault("$.expect.by", "by %q: want %s or %s, or leave it out", x.By, ByControl, ByStatus)
	case x.By == ByControl && (x.Status != 0 || x.Body != "" || x.SHA256 != ""):
		return f.Fault("$.expect", "expect: by %s says all; leave status, body and sha256 out", ByControl)
	case x.By != ByControl && x.Status == 0:
		return f.Fault("$.expect", "expect: status is missing")
	case x.SHA256 != "" && (x.Body != "" || x.By != ""):
		return f.Fault("$.expect.sha256", "sha256: want it alone, or body")
	case x.SHA256 != "" && !IsSHA256(x.SHA256):
		return f.Fault("$.expect.sha256", "sha256 %q: want %d hexadecimal digits", x.SHA256, 2*sha256.Size)
	}
	return x.checkMD5(f)
}

// IsSHA256 reports whether a text is the hexadecimal digits of a SHA-256.
func IsSHA256(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

// wrong says how an answer is not what the experiment expects.
func (x *Expectation) wrong(a *equal.Response) string {
	sum := sha256.Sum256(a.Body)
	switch got := hex.EncodeToString(sum[:]); {
	case x.By == ByControl && a.Status >= http.StatusBadRequest:
		return fmt.Sprintf("answers with status %d, and body %.60q: ask for what it has (--path, --host), or say that this is right (--expect %d)",
			a.Status, a.Body, a.Status)
	case x.By == ByControl:
		return ""
	case a.Status != x.Status:
		return fmt.Sprintf("answers with status %d, not %d", a.Status, x.Status)
	case x.SHA256 != "" && !strings.EqualFold(got, x.SHA256):
		return fmt.Sprintf("answers with a body whose SHA-256 is %s, not %s: %d bytes, %.60q", got, strings.ToLower(x.SHA256), len(a.Body), a.Body)
	case x.MD5 != "" && !strings.EqualFold(sumMD5(a.Body), x.MD5):
		return fmt.Sprintf("answers with a body whose MD5 is %s, not %s: %d bytes, %.60q", sumMD5(a.Body), strings.ToLower(x.MD5), len(a.Body), a.Body)
	case x.SHA256 == "" && x.MD5 == "" && x.By == "" && string(a.Body) != x.Body:
		return fmt.Sprintf("answers with body %.60q, not %.60q", a.Body, x.Body)
	}
	return ""
}

// wrongSize says how an answer's size is not what the experiment expects of a contender, unless that may differ.
func (e *Experiment) wrongSize(contender string, a *equal.Response) string {
	const what = "bytes"
	if _, may := e.declared(contender, equal.Difference{What: what}); e.Expect.Bytes == 0 || a.Bytes == e.Expect.Bytes || may {
		return ""
	}
	return fmt.Sprintf("answers with %d bytes, not %d", a.Bytes, e.Expect.Bytes)
}

// anyField is what a Differ says of all fields of the head.
const anyField = "fields"

// declared returns why a contender's answer may differ in this, if the experiment says so.
func (e *Experiment) declared(contender string, d equal.Difference) (why string, ok bool) {
	if e.Expect.By == ByStatus && (d.What == "body" || d.What == "body length") {
		return "bodies may be any", true
	}
	for _, x := range e.Differs {
		concerns := len(x.Contenders) == 0 || slices.Contains(x.Contenders, contender)
		if concerns && (x.What == d.What || x.What == anyField && strings.HasPrefix(d.What, "field ")) {
			return x.Why, true
		}
	}
	return "", false
}

// body is what every contender's answers hold; nil if they may hold anything.
func (e *Experiment) body(control *equal.Response) []byte {
	mayDiffer := func(d Differ) bool { return strings.HasPrefix(d.What, "body") }
	if e.Expect.By == ByStatus || slices.ContainsFunc(e.Differs, mayDiffer) {
		return nil
	}
	return append([]byte{}, control.Body...)
}

// compare notes how an answer differs from the control's.
func (w *weighing) compare(e *report.Entrant, control *equal.Response) {
	for _, d := range equal.Compare(control, e.Response) {
		if why, ok := w.experiment.declared(e.Name, d); ok {
			e.Declared = append(e.Declared, report.DeclaredDifference{Difference: d, Why: why})
			continue
		}
		e.Differences = append(e.Differences, d)
	}
	switch {
	case len(e.Differences) == 0:
	case e.Kind == report.Twin && w.experiment.Expect.By == ByControl:
		w.leaveOut(e, "it is the control once more, and answers otherwise: "+e.Differences[0].String()+
			". An application whose answers change can be weighed by their status alone: --expect "+fmt.Sprint(control.Status))
	default:
		w.leaveOut(e, "it does not answer as the control does: "+e.Differences[0].String())
	}
}
