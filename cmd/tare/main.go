// Command tare measures what each way of serving an HTTP application costs, generates load, and
// serves applications and files. See "tare --help".
package main

import (
	"os"

	"github.com/tarehq/tare/internal/cli"
)

func main() { os.Exit(cli.Main()) }
