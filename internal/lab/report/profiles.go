package report

import (
	"fmt"
	"path"
	"slices"

	"github.com/tarehq/tare/internal/lab/profile"
)

// ProfilesDir is the folder of the files for pprof.
const ProfilesDir = "profiles"

// shownChanges is the number of functions in a table of differences.
const shownChanges = 12

// flameKind is a kind of boxes in the legend.
type flameKind struct{ Class, Text string }

// profileView is the page's part about the sampled stacks of one contender.
type profileView struct {
	*profile.Profile
	Us          float64 // CPU time per request
	File        string
	Graph       *profile.Graph
	Explanation string           // of the difference to the control; "" without a clear one
	Difference  *profile.Graph   // nil for the control
	Areas       []profile.Change // likewise; the largest first
	Functions   []profile.Change
}

// newProfileViews returns a part for each contender whose stacks were sampled, the control first.
func newProfileViews(a *Report) (all []profileView) {
	control := a.controlProfile()
	for i := range a.Profiles {
		p := &a.Profiles[i]
		v := profileView{Profile: p, Us: p.Us(p.Samples()), File: profileFile(p), Graph: profile.Flame(p)}
		if v.Graph == nil {
			continue
		}
		if control != nil && p != control {
			v.Explanation = profile.Explain(p, control)
			v.Difference = profile.Difference(p, control)
			v.Areas = first(profile.Areas(p, control), shownChanges)
			v.Functions = first(profile.Functions(p, control), shownChanges)
		}
		if p == control {
			all = slices.Insert(all, 0, v)
		} else {
			all = append(all, v)
		}
	}
	return all
}

func first(all []profile.Change, n int) []profile.Change { return all[:min(n, len(all))] }

// controlProfile returns the profile of the control, or nil.
func (a *Report) controlProfile() *profile.Profile {
	i := slices.IndexFunc(a.Profiles, func(p profile.Profile) bool { return p.IsControl })
	if i < 0 {
		return nil
	}
	return &a.Profiles[i]
}

func profileFile(p *profile.Profile) string { return path.Join(ProfilesDir, p.Contender+".pb.gz") }

// profileFiles returns a file for each profile.
func (a *Report) profileFiles() (all []File) {
	for i := range a.Profiles {
		p := &a.Profiles[i]
		about := fmt.Sprintf("sampled stacks of %s, for go tool pprof", p.Title)
		all = append(all, File{profileFile(p), about, p.WritePprof})
	}
	return all
}

// ProfileSentences returns which functions carry the contenders' differences.
func (a *Report) ProfileSentences() (all []string) {
	control := a.controlProfile()
	if control == nil {
		return nil
	}
	for i := range a.Profiles {
		if text := profile.Explain(&a.Profiles[i], control); text != "" {
			all = append(all, text)
		}
	}
	return all
}
