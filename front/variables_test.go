package front

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/internal/testkit"
)

// A variable has one row: it is known here or unavailable, and a name belongs to one family only.
func TestVariableHasOneRow(t *testing.T) {
	core := coreVariables("tare")
	for name, v := range core {
		if v.get == nil || v.set != nil && v.isReplaceable || v.appendTo != nil && (v.isCached || v.isReplaceable) {
			t.Errorf("$%s: contradictory row", name)
		}
		if why := grammar.Unavailable(name); why != "" {
			t.Errorf("$%s is known, and unavailable: %s", name, why)
		}
		for _, f := range variableFamilies() {
			if strings.HasPrefix(name, f.prefix) {
				t.Errorf("$%s is also in the family %s", name, f.prefix)
			}
		}
	}
	n := len(requestVariables()) + len(clientVariables()) + len(responseVariables()) + len(processVariables("")) +
		len(tlsVariables()) + len(certVariables()) + len(proxyVariables()) + len(attemptVariables()) +
		len(traceVariables())
	for at, m := range modules() {
		if m.variables != nil {
			n += len(m.variables(slot(at)))
		}
	}
	if n != len(core) {
		t.Errorf("%d rows for %d variables", n, len(core))
	}
}

// The plan collects only what the variables of its texts need, those in maps included.
func TestPlanCollectsWhatVariablesNeed(t *testing.T) {
	for text, want := range map[conf.Text]needs{
		"$uri": 0, "$request_time": needsStartTime, "$request_body": 0, "$connection_time": needsConnection,
		"$connections_active": needsCounts, "$upstream_addr": needsAttempts | needsAnyResponse,
		"$upstream_http_a": needsAnyResponse, "$mapped": needsStartTime,
	} {
		config := &conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{conf.Return{Status: 200, Text: text}}}}}
		if text == "$mapped" {
			config.Maps = []conf.Map{{Name: "mapped", Source: "$request_time"}}
		}
		p, err := compile(config, &options{}, newState())
		testkit.Must(t, err)
		if p.needs != want {
			t.Errorf("%s: needs %b, want %b", text, p.needs, want)
		}
		p.retire()
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
		p, err := compile(&conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{set}}}}, &options{}, newState())
		if err == nil {
			p.retire()
		}
		if (err == nil) != want {
			t.Errorf("set $%s: %v, want accepted: %v", name, err, want)
		}
	}
}
