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
