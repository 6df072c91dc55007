package trial

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// Responses that differ from the expected one are wrong. The statuses of an overloaded server are
// errors of another kind.
func TestOverloadIsNoWrongResponse(t *testing.T) {
	for _, test := range []struct {
		errors   load.Errors
		statuses map[int]uint64
		want     uint64
	}{
		{load.Errors{}, map[int]uint64{200: 9}, 0},
		{load.Errors{Status: 5, Body: 2, Header: 1}, map[int]uint64{200: 9, 500: 5}, 8},
		{load.Errors{Status: 9, Read: 4, Timeout: 2, Connect: 1}, map[int]uint64{502: 3, 503: 2, 504: 1, 404: 3}, 3},
		{load.Errors{Body: 2}, map[int]uint64{503: 2}, 2}, // an expected status with a wrong body
	} {
		testkit.Equal(t, wrong(&load.Result{Errors: test.errors, Statuses: test.statuses}), test.want, test)
	}
}
