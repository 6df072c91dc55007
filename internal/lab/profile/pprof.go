package profile

import (
	"io"

	"github.com/google/pprof/profile"
)

// WritePprof writes the profile in the compressed format of pprof. "go tool pprof" reads it.
func (p *Profile) WritePprof(w io.Writer) error {
	out := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: int64(p.Period),
		Comments: []string{p.Title + " with " + p.Condition},
	}
	locations := make(map[Frame]*profile.Location)
	mappings := make(map[string]*profile.Mapping)
	for i := range p.Stacks {
		s := &p.Stacks[i]
		sample := &profile.Sample{
			Value: []int64{int64(s.Count), int64(s.Count) * int64(p.Period)},
			Label: map[string][]string{"process": {s.Role}},
		}
		for j := range s.Frames { // pprof begins with the innermost function
			f := s.Frames[len(s.Frames)-1-j]
			if locations[f] == nil {
				locations[f] = newLocation(out, mappings, f)
			}
			sample.Location = append(sample.Location, locations[f])
		}
		out.Sample = append(out.Sample, sample)
	}
	if err := out.CheckValid(); err != nil {
		return err
	}
	return out.Write(w)
}

// newLocation adds a function to a profile. Addresses are left out: they differ between processes.
func newLocation(out *profile.Profile, mappings map[string]*profile.Mapping, f Frame) *profile.Location {
	m := mappings[f.Module]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(out.Mapping) + 1), File: f.Module, HasFunctions: true}
		mappings[f.Module] = m
		out.Mapping = append(out.Mapping, m)
	}
	function := &profile.Function{ID: uint64(len(out.Function) + 1), Name: f.Text(), SystemName: f.Text()}
	out.Function = append(out.Function, function)
	location := &profile.Location{
		ID: uint64(len(out.Location) + 1), Mapping: m, Line: []profile.Line{{Function: function}},
	}
	out.Location = append(out.Location, location)
	return location
}
