//go:build linux

package corpus_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkExcuses fails if an excuse of a request is not needed, or if an excused part of tare's
// response is not the one in @ours.
func checkExcuses(t *testing.T, r *request, p *ports, nginx, tare *response) {
	t.Helper()
	for name := range r.differs {
		if unpinned[r.title+"/"+name] {
			continue
		}
		ours, theirs := excusedPart(p, name, tare), excusedPart(p, name, nginx)
		if ours == theirs {
			t.Errorf("%s: @differs %s is not needed: both are %s", r.title, name, ours)
		}
		want, ok := r.ours[name]
		switch {
		case ok && ours != want:
			t.Errorf("%s: %s is\n\t%s\nwant\n\t%s", r.title, name, ours, want)
		case !ok:
			t.Errorf("%s: missing \"@ours %s: %s\" for \"@differs %s\"", r.title, name, ours, name)
		}
	}
	for name := range r.ours {
		if r.differs[name] == "" {
			t.Errorf("%s: @ours %s without @differs", r.title, name)
		}
	}
}

// unpinned lists excuses for parts that vary between runs: a page with the times of files,
// another second, and a response that arrives during the next request.
var unpinned = map[string]bool{
	"from the file's time on/Cache-Control":     true,
	"it has come/upstream":                      true,
	"stale during a background update/upstream": true,
}

// excusedPart returns the part of a response, or of what applications received, that an excuse
// names.
func excusedPart(p *ports, name string, a *response) string {
	var part string
	of, isUpstream := strings.CutPrefix(name, "upstream")
	switch {
	case isUpstream:
		part = summary([]byte(receivedLines(a.received, strings.TrimSpace(of))))
	case name == "status":
		part = a.status
	case name == "error":
		part = a.err
	case name == "body":
		part = summary([]byte(p.restore(ownPage.ReplaceAllString(withoutBoundary(a, string(a.body)),
			"<center>server</center>"))))
	default:
		part = withoutBoundary(a, strings.Join(a.header[name], " | "))
	}
	if part = p.restore(part); part == "" {
		return "none"
	}
	return part
}

// receivedLines returns the lines that applications received, all or those of one field or
// parameter.
func receivedLines(received []string, name string) string {
	var all []string
	for _, text := range received {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			field := strings.TrimSpace(line[:max(strings.IndexAny(line, ":="), 0)])
			if (name == "" || field == name) && !ofEachServer.MatchString(line) {
				all = append(all, line)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// boundary matches the boundary of a multipart response.
var boundary = regexp.MustCompile(`^multipart/byteranges; boundary=(\S+)$`)

// withoutBoundary replaces the boundary of a multipart response in a text, because each server
// generates its own.
func withoutBoundary(a *response, text string) string {
	if m := boundary.FindStringSubmatch(a.header.Get("Content-Type")); m != nil {
		return strings.ReplaceAll(text, m[1], "BOUNDARY")
	}
	return text
}
