package load

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

type expectation struct {
	statuses *[1000]bool // allowed status codes; nil allows all below 400
	body     []byte      // nil allows any body
	sum      []byte      // SHA-256 of the body; nil allows any body
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
	if e.BodySHA256 != "" {
		sum, err := hex.DecodeString(e.BodySHA256)
		if err != nil || len(sum) != sha256.Size {
			return x, badPlan("expected SHA-256 %q: want %d hexadecimal digits", e.BodySHA256, 2*sha256.Size)
		}
		x.sum = sum
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
	if x.body == nil && x.sum == nil && len(x.fields) == 0 {
		return nil
	}
	k := &check{expected: x, missing: make([]bool, len(x.fields))}
	if x.sum != nil {
		k.hash = sha256.New()
	}
	return k
}

// check verifies the responses of a connection, one at a time.
type check struct {
	expected *expectation
	hash     hash.Hash         // nil if no sum is expected
	missing  []bool            // by expected field: not seen yet
	matched  int               // bytes of the expected body received so far
	differs  bool              // the body differs from the expected one
	sum      [sha256.Size]byte // reused for the body's sum
}

func (k *check) begin() {
	k.matched, k.differs = 0, false
	if k.hash != nil {
		k.hash.Reset()
	}
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
	if k.hash != nil {
		_, _ = k.hash.Write(piece)
	}
	if k.expected.body == nil || k.differs {
		return
	}
	if k.differs = !bytes.HasPrefix(k.expected.body[k.matched:], piece); !k.differs {
		k.matched += len(piece)
	}
}

func (k *check) wrongBody() bool {
	x := k.expected
	return x.body != nil && (k.differs || k.matched < len(x.body)) || x.sum != nil &&
		!bytes.Equal(k.hash.Sum(k.sum[:0]), x.sum)
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
		if a.checked.hash == nil {
			return fmt.Sprintf("body of %d bytes differs from the expected %d bytes", a.body,
				len(a.checked.expected.body))
		}
		return fmt.Sprintf("body of %d bytes has the unexpected SHA-256 %x", a.body, a.checked.hash.Sum(nil))
	}
	return fmt.Sprintf("unexpected status %d", a.status)
}
