package load

import (
	"cmp"
	"encoding/json"
)

// UnmarshalJSON implements json.Unmarshaler. It also accepts the keys of results that were written
// before all keys had the form of the others: camelCase, with the unit at the end.
func (r *Result) UnmarshalJSON(b []byte) error {
	type plain Result // without this method
	old := struct {
		*plain
		Drained  float64 `json:"drained"`
		Bytes    uint64  `json:"bytes"`
		Connects uint64  `json:"connects"`
		Opened   uint64  `json:"opened"`
		Due      float64 `json:"asked"`

		NoResponse uint64 `json:"unanswered"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	r.Drained, r.Due = cmp.Or(r.Drained, old.Drained), cmp.Or(r.Due, old.Due)
	r.Bytes = cmp.Or(r.Bytes, old.Bytes)
	r.Connects, r.Opened = cmp.Or(r.Connects, old.Connects), cmp.Or(r.Opened, old.Opened)
	r.NoResponse = cmp.Or(r.NoResponse, old.NoResponse)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; see Result.
func (s *Second) UnmarshalJSON(b []byte) error {
	type plain Second
	old := struct {
		*plain
		Bytes uint64 `json:"bytes"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(b, &old)
	s.Bytes = cmp.Or(s.Bytes, old.Bytes)
	return err
}

// UnmarshalJSON implements json.Unmarshaler; see Result.
func (g *Generator) UnmarshalJSON(b []byte) error {
	type plain Generator
	old := struct {
		*plain
		Busy float64 `json:"busy"`
	}{plain: (*plain)(g)}
	err := json.Unmarshal(b, &old)
	g.Busy = cmp.Or(g.Busy, old.Busy)
	return err
}
