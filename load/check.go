package load

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

type expectation struct {
	statuses *[1000]bool // allowed status codes; nil allows all below 400
	body     []byte      // nil allows any body
	fields   []expectedField
}

type expectedField struct {
	name, value string
	any         bool // any value matches
}

func (e *Expect) prepare() (expectation, error) {
	x := expectation{body: e.Body}
	for _, status := range e.Status {
		if status < 200 || status > 999 {
			return x, badPlan("expected status %d: want a number from 200 to 999", status)
		}
		if x.statuses == nil {
			x.statuses = new([1000]bool)
		}
		x.statuses[status] = true
	}
	for _, line := range e.Header {
		name, value, hasValue := strings.Cut(line, ":")
		if !http1.ValidToken(name) {
			return x, badPlan("expected header field %q: want \"Name: value\" or \"Name\"", line)
		}
		x.fields = append(x.fields, expectedField{name, strings.TrimSpace(value), !hasValue})
	}
	return x, nil
}

// newCheck returns the body and field checks of a connection, or nil if only the status matters.
func (x *expectation) newCheck() *check {
	if x.body == nil && len(x.fields) == 0 {
		return nil
	}
	return &check{expected: x, missing: make([]bool, len(x.fields))}
}

// check verifies the responses of a connection, one at a time.
type check struct {
	expected *expectation
	missing  []bool // by expected field: not seen yet
	matched  int    // bytes of the expected body received so far
	differs  bool   // the body differs from the expected one
}

func (k *check) begin() {
	k.matched, k.differs = 0, false
	for i := range k.missing {
		k.missing[i] = true
	}
}

func (k *check) field(name, value []byte) {
	for i, f := range k.expected.fields {
		if strings.EqualFold(f.name, string(name)) && (f.any || f.value == string(value)) {
			k.missing[i] = false
		}
	}
}

func (k *check) head(text []byte, h *http1.Head) {
	k.begin()
	k.section(text, h)
}

func (k *check) section(text []byte, h *http1.Head) {
	if len(k.expected.fields) == 0 {
		return
	}
	for _, f := range h.Fields {
		k.field(f.Name.In(text), f.Value.In(text))
	}
}

func (k *check) data(piece []byte) {
	if k.expected.body == nil || k.differs {
		return
	}
	if k.differs = !bytes.HasPrefix(k.expected.body[k.matched:], piece); !k.differs {
		k.matched += len(piece)
	}
}

func (k *check) wrongBody() bool {
	return k.expected.body != nil && (k.differs || k.matched < len(k.expected.body))
}

// judge returns why a complete response is wrong, or NoFailure.
func (x *expectation) judge(a *response) Failure {
	if x.statuses != nil && !x.statuses[a.status] || x.statuses == nil && a.status >= 400 {
		return FailedStatus
	}
	k := a.checked
	switch {
	case k == nil:
		return NoFailure
	case slices.Contains(k.missing, true):
		return FailedHeader
	case !a.isHead && k.wrongBody():
		return FailedBody
	}
	return NoFailure
}

// describe returns the error text for a Failure that judge returned.
func (f Failure) describe(a *response) string {
	switch f {
	case FailedHeader:
		k := a.checked
		return fmt.Sprintf("response without the expected header field %q",
			k.expected.fields[slices.Index(k.missing, true)].name)
	case FailedBody:
		return fmt.Sprintf("body of %d bytes differs from the expected %d bytes", a.body,
			len(a.checked.expected.body))
	}
	return fmt.Sprintf("unexpected status %d", a.status)
}
