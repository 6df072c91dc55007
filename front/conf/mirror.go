package conf

// Mirror sends copies of requests to other locations, whose responses are discarded. The client
// does not wait for them: after five minutes, or if 512 are in progress, copies are lost and
// logged.
type Mirror struct {
	// URIs are the paths of locations, without variables and queries. The copies have the query of
	// the request.
	URIs []string
	// NoBody leaves the body out of the copies. Otherwise it is received completely before the
	// request goes on.
	NoBody bool
}
