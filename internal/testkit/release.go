package testkit

import (
	"go/version"
	"runtime"
	"slices"
	"strings"
)

// Release is the release of Go without its experiments, such as "go1.26.9".
func Release() string {
	release, _, _ := strings.Cut(runtime.Version(), " ")
	return release
}

// NetHTTPPrecedes reports whether net/http is older than a change that first is in these releases:
// one of each Go version that has received it, in order, such as "go1.26.9" and "go1.27.2".
func NetHTTPPrecedes(first ...string) bool {
	now := Release()
	same := func(release string) bool { return version.Lang(release) == version.Lang(now) }
	if i := slices.IndexFunc(first, same); i >= 0 {
		return version.Compare(now, first[i]) < 0
	}
	return version.Compare(now, first[len(first)-1]) < 0
}
