package events

import (
	"testing"
	"time"
)

// A websocket's message is masked, and its echo has the time in it.
func TestEventsHaveTheirTime(t *testing.T) {
	const written = 12345678901234 * time.Nanosecond
	frame := appendMessage(nil, written)
	const head, mask = 2, 4
	if len(frame) != head+mask+timeDigits || frame[0] != 0x81 || frame[1] != 0x80|timeDigits {
		t.Fatalf("frame %x", frame)
	}
	payload := frame[head+mask:]
	for i := range payload {
		payload[i] ^= frame[head+i%mask]
	}
	for text, want := range map[string]time.Duration{
		string(payload): written, "00000000000000000007": 7,
		"7": -1, "": -1, "0000000000000000000x": -1, "-0000000000000000007": -1, "99999999999999999999": -1,
	} {
		got, err := parseEvent([]byte(text))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
