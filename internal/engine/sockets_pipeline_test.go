package engine_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A client that pipelines may need the first response before it allows the handler of the second
// request to continue.
func TestPipelinedResponsesAreNotHeldBack(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	onShards(t, pipelinedResponsesAreNotHeldBack)
}

func pipelinedResponsesAreNotHeldBack(t *testing.T, mode string) {
	release := make(chan bool)
	_, dial := siteOver(t, mode, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "second" {
			<-release
		}
		io.WriteString(w, r.URL.RawQuery+".")
	})})
	for round := range 100 { // in debt at first, later on the loop
		c := dial()
		for range round {
			io.WriteString(c, "GET /?x HTTP/1.1\r\n"+host+"\r\n")
			readResponses(t, c, 1)
		}
		io.WriteString(c, "GET /?first HTTP/1.1\r\n"+host+"\r\nGET /?second HTTP/1.1\r\n"+host+"\r\nGET /?third "+
			"HTTP/1.1\r\n"+host+"\r\n")
		if got := readResponses(t, c, 1); !strings.Contains(got, "first.") {
			t.Fatalf("%q", got)
		}
		release <- true
		if got := readResponses(t, c, 2); !strings.Contains(got, "second.") || !strings.Contains(got, "third.") {
			t.Fatalf("%q", got)
		}
		c.Close()
	}
}

// A slow reader holds up only its own handler, and receives every byte.
