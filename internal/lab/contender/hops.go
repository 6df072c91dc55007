package contender

import "strings"

// Behind returns the addresses of the application behind a front: host:port each, or the path of a
// unix socket. Without a front there are none.
func (r *Running) Behind() []string {
	if r.Front == "" {
		return nil
	}
	var all []string
	for _, at := range r.upstreams {
		all = append(all, strings.TrimPrefix(at, "unix:"))
	}
	return all
}
