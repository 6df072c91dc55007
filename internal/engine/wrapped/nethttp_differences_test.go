package tare_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// portDifferences are the tests of net/http that fail with tare, and what the package documentation
// states about it. They must fail.
func portDifferences() map[string]string {
	const order = "Fields that the server adds, such as Date, may be in a different order."
	return map[string]string{
		"TestTolerateCRLFBeforeRequestLine": "One empty line before a request is skipped",
		"TestServerValidatesHostHeader":     "an IPv6 address without brackets or with a zone",
		"TestEarlyHints":                    order,
		"TestProcessing":                    order,
		"TestH12_HandlerWritesTooLittle":    "fewer bytes than its Content-Length states ends with an error",
	}
}

// The package documentation names what differs.
func TestPortDifferencesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../doc.go")
	testkit.Must(t, err)
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\n//", " ")), " ")
	for name, why := range portDifferences() {
		if !strings.Contains(text, why) {
			t.Errorf("%s: %q is not documented", name, why)
		}
	}
}
