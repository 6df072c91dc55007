package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A client that pipelines may need the first response before it allows the handler of the second
// request to continue.
func TestPipelinedResponsesAreNotHeldBack(t *testing.T) {
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

// Thousands of pipelined requests get responses in order and in few writes.
func TestPipelinedResponsesKeepOrder(t *testing.T) { onShards(t, pipelinedResponsesKeepOrder) }

func pipelinedResponsesKeepOrder(t *testing.T, mode string) {
	const n = 3000
	_, dial := siteOver(t, mode, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s.", r.URL.RawQuery)
	})})
	c := dial()
	go func() {
		for i := range n {
			fmt.Fprintf(c, "GET /?%d HTTP/1.1\r\nHost: a\r\n\r\n", i)
		}
	}()
	got := readResponses(t, c, n)
	for i, part := range strings.Split(got, "HTTP/1.1 ")[1:] {
		if !strings.HasSuffix(part, fmt.Sprintf("\r\n\r\n%d.", i)) {
			t.Fatalf("response %d is %q", i, part)
		}
	}
}

// A slow reader holds up only its own handler, and receives every byte.
