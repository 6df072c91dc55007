package load_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// Results with the keys of earlier versions have the same meaning.
func TestOlderResultsAreRead(t *testing.T) {
	want := load.Result{
		URL: "http://h/", Connections: 4, Seconds: 2, Drained: 0.25, Requests: 9, Bytes: 900, BodyBytes: 90,
		SentBytes: 45,
		Connects:  3, Opened: 4, Due: 10.5, NoResponse: 2, Timeline: []load.Second{{Requests: 9, Bytes: 900}},
		Generator: load.Generator{UserSeconds: 0.5, Busy: 0.75},
	}
	written, err := json.Marshal(want)
	testkit.Must(t, err)
	older := strings.NewReplacer(
		`"drainedSeconds"`, `"drained"`, `"receivedBytes"`, `"bytes"`, `"connectionsMeasured"`, `"connects"`,
		`"connectionsBefore"`, `"opened"`, `"due"`, `"asked"`, `"noResponse"`, `"unanswered"`, `"busyShare"`, `"busy"`,
	).Replace(string(written))
	if older == string(written) {
		t.Fatal("no key differs")
	}
	for name, text := range map[string]string{"new": string(written), "older": older} {
		var got load.Result
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s keys: got %+v, %v, want %+v", name, got, err, want)
		}
	}
}
