package load

// overHTTP2 is HTTP/2 as a protocol to load.
type overHTTP2 struct{ overHTTP }
