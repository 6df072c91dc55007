package conf

// Gzip configures compression.
type Gzip struct {
	Level     int   // 1 to 9; 0 is 1
	MinLength int64 // bytes, by Content-Length; 0 is 20
	// Types are media types besides text/html; "*" is any.
	Types []string
	Vary  bool
	// Proxied selects the responses to proxied requests that are compressed, in nginx's words:
	// "any", "expired", "no-cache", …. Nil means none.
	Proxied []string
	// HTTP10 compresses for HTTP/1.0, too.
	HTTP10 bool
	// Disable are regular expressions for user agents that do not get compressed responses, or
	// "msie6".
	Disable []string
}

// Compression configures compression by Brotli or Zstandard.
type Compression struct {
	Level     *int  // 0 to 11 for Brotli, 1 to 22 for Zstandard; nil is 6 and 1
	MinLength int64 // bytes, by Content-Length; 0 is 20
	// Types are media types besides text/html; "*" is any.
	Types []string
	Vary  bool
}

// SubFilter replaces strings in bodies without Content-Encoding. Compression follows.
type SubFilter struct {
	// Substitutions are searched for from the start of the body; replaced text is not searched
	// again. If two match at the same place, the first one applies.
	Substitutions []Substitution
	// Types are media types besides text/html; "*" is any.
	Types []string
	// Every replaces all occurrences of a string. Otherwise only its first one is replaced.
	Every bool
	// KeepModified keeps Last-Modified, and makes Etag weak. Otherwise both are removed.
	KeepModified bool
}

// Substitution is a string and its replacement.
type Substitution struct {
	// case of ASCII letters is ignored; if From evaluates to an empty string, it is not searched
	// for
	From Text
	To   Text
}
