package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// naive finds a location by comparing all of them.
func naive(all []conf.Location, path string) (found *conf.Location, slash bool) {
	var best *conf.Location
	for i := range all {
		l := &all[i]
		switch {
		case l.Match == "=" && l.Path == path:
			return l, false
		case l.Match != "=" && strings.HasPrefix(path, l.Path) && (best == nil ||
			len(l.Path) > len(best.Path)):
			best = l
		}
	}
	if best == nil || best.Path != path {
		for i := range all {
			if l := &all[i]; l.Proxy != nil && l.Path == path+"/" {
				return l, true
			}
		}
	}
	return best, false
}

// FuzzLocations compares the search with one that compares all locations. Its input are the paths
// of locations, one per line, whose first byte is the kind, and the path of a request.
func FuzzLocations(f *testing.F) {
	f.Add("p/\np/a\np/ab\np/a/b/\n=/a\n", "/a/b/c")
	f.Add("p/\n^/i/\np/i\ns/p/\n=/p/", "/p")
	f.Add("0/", "0")
	f.Add("p/", "")
	f.Add("p\np/x\ns/x/", "/x")
	f.Fuzz(func(t *testing.T, text, path string) {
		var all []conf.Location
		seen := make(map[string]bool)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || len(all) > 50 {
				continue
			}
			l := conf.Location{Path: line[1:]}
			switch line[0] {
			case '=':
				l.Match = "="
			case '^':
				l.Match = "^~"
			case 's':
				l.Proxy = &conf.Proxy{To: "app"}
			}
			key := fmt.Sprint(l.Match == "=", l.Path)
			if seen[key] {
				continue
			}
			seen[key] = true
			all = append(all, l)
		}
		c := emptyCompiler()
		var found locations
		prefixes := make(map[string]*Location)
		for i := range all {
			loc := new(Location)
			testkit.Must(t, c.addLocation(&host{}, &found, loc, &all[i], prefixes))
		}
		found.sort()
		nothing := &Location{}
		got := nothing
		verdict := found.find(&Exchange{}, path, &got)
		want, slash := naive(all, path)
		if (want == nil) != (got == nothing) || want != nil && want.Path != got.Path ||
			slash != (verdict == searchRedirect) {
			t.Errorf("%q in %q: %q %v, want %+v %v", path, text, got.Path, verdict, want, slash)
		}
	})
}

// A thousand locations are found as fast as a few, because the search visits few of them.
func TestLocationSearchIsFast(t *testing.T) {
	var all []conf.Location
	for i := range 1000 {
		all = append(all, conf.Location{Path: fmt.Sprintf("/%03d/", i),
			Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(fmt.Sprint(i))}}})
	}
	h := &host{}
	testkit.Must(t, emptyCompiler().locations(h, &h.locations, all, nil))
	for i := range 1000 {
		var got *Location
		h.locations.find(&Exchange{}, fmt.Sprintf("/%03d/x", i), &got)
		if got == nil || got.Path != all[i].Path {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	p := h.locations.prefixes
	for i := range p {
		if p[i].above >= i {
			t.Fatalf("%d is above %d", p[i].above, i)
		}
	}
}
