package engine_test

import "os"

// slow reports whether tests may take their time: "make check-slow" lets them.
func slow() bool { return os.Getenv("TARE_SLOW") != "" }
