package core

import (
	"github.com/tarehq/tare/front/internal/message"
)

// RequestField returns the value of $http_NAME. A name with hyphens comes before one with
// underscores.
func (x *Exchange) RequestField(name string) []string {
	header := x.ClientRequest().Header
	if v, ok := header[name]; ok || x.Host == nil || x.Host.Fields == (message.FieldNames{}) {
		return v
	}
	switch name {
	// nginx finds these by their exact names only
	case "User-Agent", "Referer", "Via", "X-Forwarded-For":
		return nil
	}
	found := ""
	for other := range header {
		if message.ConfusedWith(other) == name && x.Host.Fields.Allows(other) && (found == "" || other < found) {
			found = other
		}
	}
	return header[found]
}
