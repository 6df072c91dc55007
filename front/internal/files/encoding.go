package files

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

type coding struct {
	token, suffix string
	sibling       bool // a file next to the original
	always        bool // also sent to clients that do not accept it
	made          bool // compressed by the handler
}

// The supported codings, in the order of preference for equal weights.
const (
	brotli = iota
	zstandard
	gzipped
	numCodings
)

const alwaysWeight = grammar.MaxWeight + 1

// acceptedCodings are the weights of an Accept-Encoding field in thousandths; -1 means none.
type acceptedCodings struct {
	codings  [numCodings]int
	identity int
}

// parseAcceptEncoding parses Accept-Encoding: RFC 9110, 12.5.3. Malformed elements are ignored.
func parseAcceptEncoding(value string, codings *[numCodings]coding) acceptedCodings {
	w := acceptedCodings{identity: -1}
	for i := range w.codings {
		w.codings[i] = -1
	}
	any := -1
	for value != "" {
		var element string
		element, value, _ = strings.Cut(value, ",")
		token, parameters, _ := strings.Cut(element, ";")
		token = strings.Trim(token, " \t")
		q, ok := grammar.ParseWeight(parameters)
		if !ok {
			continue
		}
		switch {
		case token == "*":
			any = q
		case strings.EqualFold(token, "identity"):
			w.identity = q
		case strings.EqualFold(token, "x-gzip"):
			w.codings[gzipped] = q
		default:
			for i := range codings {
				if strings.EqualFold(token, codings[i].token) {
					w.codings[i] = q
				}
			}
		}
	}
	for i := range w.codings {
		if w.codings[i] < 0 {
			w.codings[i] = max(any, 0)
		}
	}
	return w
}

// choose selects the variant for a request. If the request accepts none, it gets the file itself,
// even if it excludes that: like net/http and nginx, the handler never sends 406. If there is no
// such file, choose returns nil.
func (h *Handler) choose(res *resource, header http.Header) *variant {
	if !res.varies {
		return res.identity
	}
	w := parseAcceptEncoding(strings.Join(header["Accept-Encoding"], ", "), &h.plan.codings)
	if res.identity == nil {
		w.identity = -1
	}
	for i := range w.codings {
		if h.plan.codings[i].always {
			w.codings[i] = alwaysWeight
		}
	}
	for {
		best := -1
		for i, q := range w.codings {
			if q > 0 && q >= w.identity && (best < 0 || q > w.codings[best]) {
				best = i
			}
		}
		if best < 0 {
			return res.identity
		}
		if v := h.encoded(res, best); v != nil {
			return v
		}
		w.codings[best] = 0
	}
}

// encoded returns the variant with a coding, or nil.
func (h *Handler) encoded(res *resource, i int) *variant {
	v := res.encoded[i].Load()
	if v == nil && res.makes && h.plan.codings[i].made {
		v = h.make(res, i)
	}
	if v == nil || v.header == nil {
		return nil
	}
	return v
}
