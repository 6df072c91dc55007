package front

// requestField returns the value of $http_NAME. A name with hyphens comes before one with
// underscores.
func (x *exchange) requestField(name string) []string {
	header := x.clientRequest().Header
	if v, ok := header[name]; ok || x.host == nil || x.host.fields == (fieldNames{}) {
		return v
	}
	switch name {
	// nginx finds these by their exact names only
	case "User-Agent", "Referer", "Via", "X-Forwarded-For":
		return nil
	}
	found := ""
	for other := range header {
		if confusedWith(other) == name && x.host.fields.allows(other) && (found == "" || other < found) {
			found = other
		}
	}
	return header[found]
}
