package client

import "net/http"

// maxKeptFields bounds the header whose memory is used again: a map never shrinks.
const maxKeptFields = 32

// Memory is that of one exchange after the other, for callers who know when nobody has a response any more. It saves two thirds of what
// an exchange allocates. The zero value is ready.
type Memory struct{ slab slab }

// RoundTripIn is RoundTrip with the memory of an exchange that is over.
func (c *Client) RoundTripIn(m *Memory, r *http.Request) (*http.Response, error) {
	if m.slab.response.Header == nil {
		m.slab.response.Header = make(http.Header)
	}
	return c.roundTrip(&m.slab, r)
}

// Reset makes the memory ready for another exchange. The response and its Header are nobody's by then, and its body has come at once:
// only such a body is a roundtrip.WholeBody. The Header's values may be kept.
func (m *Memory) Reset() {
	h := m.slab.response.Header
	if len(h) > maxKeptFields {
		h = nil
	}
	clear(h)
	m.slab = slab{response: http.Response{Header: h}}
}
