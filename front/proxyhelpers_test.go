package front_test

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"net/textproto"
	"testing"
)

// hinted returns a context whose requests record interim responses.
func hinted(t testing.TB, hints *[]string) context.Context {
	return httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			*hints = append(*hints, fmt.Sprint(code, " ", h.Get("Link")))
			return nil
		}})
}
