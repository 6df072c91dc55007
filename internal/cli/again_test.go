package cli_test

import (
	"fmt"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// tries is the number of attempts of a command whose figures other processes can spoil by using the
// CPUs.
const tries = 10

// again PATTERN COMMAND... runs a command like exec and repeats it until it succeeds and its output
// matches. The variable TRY holds the number of seconds that it may wait, more each time.
func again(ts *testscript.TestScript, neg bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for i := range tries {
		ts.Setenv("TRY", fmt.Sprint(min(1<<i, 16)))
		err := ts.Exec(args[1], args[2:]...)
		printed := ts.ReadFile("stdout") + "\n" + ts.ReadFile("stderr")
		if neg == (err != nil) && want.MatchString(printed) {
			return
		}
	}
	ts.Fatalf("%q came in none of %d runs of %q", args[0], tries, args[1:])
}
