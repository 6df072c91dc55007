package conf

// Log is an access log.
type Log struct {
	// Path is a file, in a folder that exists, or "syslog:server=…" as in nginx. Variables in it
	// choose the file of each line. "" disables logging.
	Path string
	// Dir is the folder of paths that are relative once their variables have values.
	Dir    string
	Format string // the name of a LogFormat; "" is combined
	// If restricts the log to requests for which it is neither empty nor "0"; "" logs all.
	If Text
}

// LogFormat is the format of a log's lines.
type LogFormat struct {
	Name string
	// Escape is how variables are escaped, so that none ends a line: "" by \xHH, "json" as in a
	// JSON string, and with "none" only line ends.
	Escape string
	Text   Text
}

// ErrorLog is a log for errors.
type ErrorLog struct {
	Path  string // "stderr" is standard error
	Level string // "" is "error"
	// Next is a second log for the same errors, with its own level; nil means none.
	Next *ErrorLog
}
