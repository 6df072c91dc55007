package engine_test

import "os"

// slow reports whether tests may run long, as in "make check-slow".
func slow() bool { return os.Getenv("TARE_SLOW") != "" }
