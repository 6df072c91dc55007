package front

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/grammar"
)

// A variable has one row: it is known here or unavailable, and a name belongs to one family only.
func TestVariableHasOneRow(t *testing.T) {
	known := core.AllVariables("tare", modules())
	for name, v := range known {
		if v.Get == nil || v.Set != nil && v.IsReplaceable || v.AppendTo != nil && (v.IsCached || v.IsReplaceable) {
			t.Errorf("$%s: contradictory row", name)
		}
		if why := grammar.Unavailable(name); why != "" {
			t.Errorf("$%s is known, and unavailable: %s", name, why)
		}
		for _, m := range modules() {
			for _, f := range m.Families {
				if strings.HasPrefix(name, f.Prefix) {
					t.Errorf("$%s is also in the family %s", name, f.Prefix)
				}
			}
		}
	}
	n := len(core.AllVariables("", nil))
	for at, m := range modules() {
		if m.Variables != nil {
			n += len(m.Variables(core.Slot(at)))
		}
	}
	if n != len(known) {
		t.Errorf("%d rows for %d variables", n, len(known))
	}
}

// A Set may replace the variables that nginx lets it replace, and no others.
func TestSetReplacesVariablesAsInNginx(t *testing.T) {
	for name, want := range map[string]bool{
		"args": true, "limit_rate": true, "invalid_referer": true, "ssl_protocol": true, "ssl_client_verify": true,
		"proxy_host": true, "proxy_port": true, "http_a": true, "upstream_http_a": true,
		"query_string": false, "upstream_addr": false, "upstream_cache_status": false, "fastcgi_path_info": false,
		"proxy_add_x_forwarded_for": false, "proxy_protocol_addr": false, "secure_link": false, "gzip_ratio": false,
	} {
		set := conf.Set{Name: name, Value: "x"}
		h, err := New(conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{set}}}})
		if err == nil {
			_ = h.Close()
		}
		if (err == nil) != want {
			t.Errorf("set $%s: %v, want accepted: %v", name, err, want)
		}
	}
}
