package proc

import (
	"fmt"
	"strconv"
	"strings"
)

// CallNames returns the names of system calls by their numbers on this architecture. It is empty
// for architectures without a table.
func CallNames() map[int]string {
	names := make(map[int]string)
	for line := range strings.Lines(callNames) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("proc: BUG: a line of the table of system calls is %q", line))
		}
		names[n] = name
	}
	return names
}
