package front

// Gzip says what is compressed.
type Gzip struct {
	Level     int   // 1 to 9; 0 is 1
	MinLength int64 // bytes, by Content-Length; 0 is 20
	// Types are media types besides text/html; "*" is any.
	Types []string
	Vary  bool
	// Proxied says which answers to proxied requests are compressed, in nginx's words: "any", "expired", "no-cache", …. Nil is none.
	Proxied []string
	// HTTP10 compresses for HTTP/1.0, too.
	HTTP10 bool
	// Disable are regular expressions of user agents that get nothing compressed, or "msie6".
	Disable []string
}

// Substitution says what is replaced in bodies that have no Content-Encoding. It is done before they are compressed.
type SubFilter struct {
	// Pairs are looked for from the body's beginning on, without what has been replaced. Of two that match at one place the first
	// counts.
	Substitutions []Substitution
	// Types are media types besides text/html; "*" is any.
	Types []string
	// Every replaces a string wherever it is. Otherwise each is replaced once.
	Every bool
	// KeepModified leaves Last-Modified as it is, and makes Etag weak. Otherwise both are taken out.
	KeepModified bool
}

// Pair is a string and what takes its place.
type Substitution struct {
	From Text // without regard to the case of ASCII letters; one that is empty once variables are filled in is looked for nowhere
	To   Text
}
