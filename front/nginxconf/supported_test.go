package nginxconf

import (
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

// sample is a directive at a place, with what it needs to have an effect.
type sample struct{ level, text, needs string }

// base is a configuration in whose places a sample has an effect.
const base = `@main events { @events } http {
	proxy_cache_path /c keys_zone=c:1m; fastcgi_cache_path /d keys_zone=d:1m; fastcgi_cache_key z;
	limit_req_zone $host zone=r:1m rate=1r/s; limit_conn_zone $host zone=n:1m;
	map $host $of_map { @map }
	upstream u { server a; @upstream } match m { @match }
	acme_issuer i { uri https://i.test/; @issuer }
	acme_issuer j { uri https://j.test/; }
	@http
	server { listen 81; @server
		location /p { proxy_pass http://u; @proxy }
		location /s { proxy_pass https://u; @https }
		location /f { fastcgi_pass u; @fastcgi }
		location /l { @location }
	}
	server { listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key c.key; @ssl }
	server { listen 444 ssl; server_name a.test; ssl_reject_handshake on; @acme }
}`

// samples returns samples for each supported directive.
func samples() map[string][]sample {
	at := func(level string, texts ...string) []sample {
		var all []sample
		for _, text := range texts {
			all = append(all, sample{level, text, ""})
		}
		return all
	}
	all := map[string][]sample{
		"pid": at("main", "pid x;"), "user": at("main", "user a;", "user a b;"),
		"worker_rlimit_nofile":    at("main", "worker_rlimit_nofile 9;"),
		"worker_shutdown_timeout": at("main", "worker_shutdown_timeout 1s;"),
		"error_log":               {{"main", "error_log x;", ""}, {"http", "error_log x warn;", ""}, {"location", "error_log x;", ""}},
		"include":                 {{"http", "include gzip.conf;", ""}}, "events": nil, "http": nil,
		"server": {{"http", "server { listen 82; }", ""}, {"upstream", "server b;", ""},
			{"upstream", "server b drain;", ""}, {"upstream", "server b slow_start=5s;", ""},
			{"upstream", "server b route=x;", ""}, {"upstream", "server b resolve;", ""}},
		"sticky": at("upstream", "sticky cookie a;",
			"sticky cookie a expires=1h domain=.b path=/ httponly secure samesite=lax;",
			"sticky cookie a expires=max;", "sticky route $arg_r $cookie_r;"),
		"listen": at("server", "listen 82;", "listen 82 ssl; ssl_reject_handshake on;", "listen 82 http2;",
			"listen 82 default_server;", "listen 82 proxy_protocol;", "listen 82 reuseport;", "listen 82 backlog=5;",
			"listen [::]:82;", "listen [::]:82 ipv6only=off;", "listen unix:x;"),
		"server_name":  at("server", "server_name a;"),
		"location":     at("server", "location /q { }", "location = /q { }"),
		"limit_except": at("location", "limit_except GET { deny all; }"),
		"root":         {{"http", "root x;", ""}, {"location", "root x;", ""}}, "alias": at("location", "alias x;"),
		"index": at("http", "index x;"), "try_files": {{"server", "try_files a b;", ""}, {"location", "try_files a b;", ""}},
		"internal":                 at("location", "internal;"),
		"error_page":               at("location", "error_page 404 /x;", "error_page 404 =200 /x;", "error_page 404 = /x;"),
		"recursive_error_pages":    at("http", "recursive_error_pages on;"),
		"types":                    {{"http", "types { a/b c; }", ""}, {"location", "types { }", ""}},
		"default_type":             at("http", "default_type a/b;"),
		"client_max_body_size":     at("location", "client_max_body_size 1;", "client_max_body_size 0;"),
		"client_body_in_file_only": at("location", "client_body_in_file_only on;", "client_body_in_file_only clean;"),
		"client_body_temp_path":    {{"location", "client_body_temp_path /x;", "client_body_in_file_only on;"}},
		"client_body_timeout":      at("location", "client_body_timeout 1s;"),
		"lingering_close":          at("location", "lingering_close off;", "lingering_close always;"),
		"lingering_time":           at("location", "lingering_time 1s;"),
		"lingering_timeout":        at("location", "lingering_timeout 1s;"),
		"send_timeout":             at("location", "send_timeout 1s;"), "satisfy": at("location", "satisfy any;"),
		"absolute_redirect":       at("location", "absolute_redirect off;"),
		"port_in_redirect":        at("location", "port_in_redirect off;"),
		"server_name_in_redirect": at("location", "server_name_in_redirect on;"),
		"server_tokens":           at("location", "server_tokens off;"),
		"log_not_found":           at("location", "log_not_found off;"),
		"merge_slashes":           at("server", "merge_slashes off;"),
		"underscores_in_headers":  at("server", "underscores_in_headers on;"),
		"ignore_invalid_headers":  at("server", "ignore_invalid_headers off;"),
		"if_modified_since":       at("location", "if_modified_since off;", "if_modified_since before;"),
		"disable_symlinks": at("location", "disable_symlinks on;", "disable_symlinks if_not_owner;",
			"disable_symlinks on from=/x;"),
		"etag": at("location", "etag off;"), "limit_rate": at("location", "limit_rate 1k;"),
		"limit_rate_after":      at("location", "limit_rate_after 1k;"),
		"client_header_timeout": at("server", "client_header_timeout 1s;"),
		"keepalive_timeout":     {{"server", "keepalive_timeout 1s;", ""}, {"upstream", "keepalive_timeout 1s;", ""}},
		"keepalive_requests":    {{"server", "keepalive_requests 0;", ""}, {"upstream", "keepalive_requests 5;", ""}},
		"resolver": {{"proxy", "resolver 127.0.0.1;", ""},
			{"proxy", "resolver 127.0.0.1:54 valid=1s ipv6=off status_zone=z;", ""},
			{"upstream", "resolver dns.example;", ""}},
		"resolver_timeout":             {{"proxy", "resolver_timeout 1s;", "resolver 127.0.0.1;"}},
		"keepalive_time":               {{"upstream", "keepalive_time 1m;", ""}},
		"large_client_header_buffers":  at("server", "large_client_header_buffers 2 1k;"),
		"http2":                        at("server", "http2 on;"),
		"http2_max_concurrent_streams": at("server", "http2_max_concurrent_streams 7;"),
		"http2_body_preread_size":      at("server", "http2_body_preread_size 128k;"),
		"http3":                        {{"ssl", "http3 off;", "listen 443 quic;"}},
		"http3_max_concurrent_streams": {{"ssl", "http3_max_concurrent_streams 7;", "listen 443 quic;"}},
		"http3_stream_buffer_size":     {{"ssl", "http3_stream_buffer_size 7k;", "listen 443 quic;"}},
		"quic_retry":                   {{"ssl", "quic_retry on;", "listen 443 quic;"}},
		"quic_host_key":                {{"ssl", "quic_host_key /key;", "listen 443 quic;"}},
		"rewrite": {{"server", "rewrite a b;", ""}, {"location", "rewrite a b last;", ""},
			{"location", "rewrite a http://b;", ""}},
		"return": {{"server", "return 404;", ""}, {"location", "return 200 a;", ""}}, "break": at("location", "break;"),
		"if":  {{"server", "if ($host) { return 200; }", ""}, {"location", "if (-f $uri) { break; }", ""}},
		"set": at("server", "set $a b;"), "map": {{"http", "map $host $a { a b; }", ""}, {"map", "a b;", ""},
			{"map", "default b;", ""}, {"map", "hostnames;", ""}, {"map", "volatile;", ""}},
		"geo": at("http", "geo $a { 10.0.0.0/8 b; }", "geo $a { 10.0.0.0/8 b; proxy ::1; }",
			"geo $a { 10.0.0.0/8 b; proxy ::1; proxy_recursive; }"),
		"split_clients": at("http", "split_clients $host $a { 5% b; }"),
		"allow":         at("location", "allow all;", "allow unix:;"), "deny": at("location", "deny all;"),
		"valid_referers": at("location", "valid_referers a;", "valid_referers none a;", "valid_referers blocked a;",
			"valid_referers server_names;", "valid_referers ~a;", "valid_referers a/b;"),
		"secure_link":          at("location", "secure_link a; secure_link_md5 b;"),
		"secure_link_md5":      {{"location", "secure_link_md5 b;", "secure_link a;"}},
		"secure_link_secret":   at("location", "secure_link_secret a;"),
		"auth_basic":           {{"location", "auth_basic a;", "auth_basic_user_file b;"}},
		"auth_basic_user_file": {{"location", "auth_basic a; auth_basic_user_file b;", ""}},
		"auth_request":         at("location", "auth_request /a;", "auth_request /b;"),
		"auth_request_set": {{"location", "auth_request_set $a b;", "auth_request /a;"},
			{"location", "auth_request_set $a $status; auth_request_set $b c;", "auth_request /a;"}},
		"set_real_ip_from": at("location", "set_real_ip_from 10.0.0.1;", "set_real_ip_from unix:;",
			"set_real_ip_from localhost;"),
		"auth_delay":        at("location", "auth_delay 2s;"),
		"real_ip_header":    at("location", "real_ip_header X-Forwarded-For;"),
		"real_ip_recursive": at("location", "real_ip_recursive on;"),
		"limit_req_zone":    at("http", "limit_req_zone $host zone=x:1m rate=1r/s;"),
		"limit_req": at("location", "limit_req zone=r;", "limit_req zone=r burst=1;",
			"limit_req zone=r nodelay;", "limit_req zone=r delay=1;"),
		"limit_req_status":     at("location", "limit_req_status 429;"),
		"limit_req_log_level":  at("location", "limit_req_log_level info;", "limit_req_log_level warn;"),
		"limit_conn_log_level": at("location", "limit_conn_log_level notice;"),
		"limit_req_dry_run":    at("location", "limit_req_dry_run on;"),
		"limit_conn_zone":      at("http", "limit_conn_zone $host zone=x:1m;"),
		"limit_conn":           at("location", "limit_conn n 1;"),
		"limit_conn_status":    at("location", "limit_conn_status 429;"),
		"limit_conn_dry_run":   at("location", "limit_conn_dry_run on;"),
		"log_format":           at("http", "log_format f a;", "log_format f escape=json a;"),
		"access_log": at("location", "access_log x;", "access_log x combined if=$host;",
			"access_log x$host;",
			"access_log syslog:server=a;"),
		"log_subrequest":      at("location", "log_subrequest on;"),
		"stub_status":         at("location", "stub_status;", "stub_status prometheus;"),
		"add_header":          at("location", "add_header A b;", "add_header A b always;"),
		"add_trailer":         at("location", "add_trailer A b;", "add_trailer A b always;"),
		"early_hints":         at("location", "early_hints $http2;", "early_hints a $uri;"),
		"mirror":              at("location", "mirror /a;", "mirror /a; mirror /b;"),
		"mirror_request_body": {{"location", "mirror_request_body off;", "mirror /a;"}},
		"otel_trace_context": at("location", "otel_trace_context extract;", "otel_trace_context inject;",
			"otel_trace_context propagate;"),
		"otel_trace":     at("location", "otel_trace on;", "otel_trace $host;"),
		"otel_span_name": {{"location", "otel_span_name a;", "otel_trace on;"}},
		"otel_span_attr": {{"location", "otel_span_attr a b;", "otel_trace on;"}},
		"gunzip":         at("location", "gunzip on;", "gunzip on; gzip_http_version 1.0;"),
		"expires":        at("location", "expires 1h;", "expires modified 1h;"),
		"charset":        at("location", "charset utf-8;"), "charset_types": at("location", "charset_types a/b;"),
		"gzip": at("location", "gzip on;"), "chunked_transfer_encoding": at("location",
			"chunked_transfer_encoding off;"), "gzip_static": at("location", "gzip_static on;", "gzip_static always;"),
		"brotli_static": at("location", "brotli_static on;"), "zstd_static": at("location", "zstd_static on;"),
		"autoindex": at("location", "autoindex on;"), "autoindex_localtime": at("location", "autoindex_localtime on;"),
		"autoindex_exact_size":    at("location", "autoindex_exact_size off;"),
		"autoindex_format":        at("location", "autoindex_format json;", "autoindex_format html;"),
		"client_body_buffer_size": at("location", "client_body_buffer_size 1k;", "client_body_buffer_size 0;"),
		"max_headers":             at("server", "max_headers 5;"),
		"empty_gif":               at("location", "empty_gif;"),
		"ssl":                     at("server", "ssl on; ssl_reject_handshake on;"),
		"ssl_certificate":         at("ssl", "ssl_certificate d.pem; ssl_certificate_key d.key;"),
		"ssl_certificate_key":     at("ssl", "ssl_certificate d.pem; ssl_certificate_key d.key;"),
		"ssl_protocols":           at("ssl", "ssl_protocols TLSv1.3;"),
		"ssl_ciphers":             at("ssl", "ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;"),
		"ssl_ecdh_curve":          at("ssl", "ssl_ecdh_curve X25519;"),
		"ssl_client_certificate":  at("ssl", "ssl_client_certificate c.pem; ssl_verify_client on;"),
		"ssl_trusted_certificate": nil,
		"ssl_verify_client": {{"ssl", "ssl_verify_client optional;", "ssl_client_certificate c.pem;"},
			{"ssl", "ssl_verify_client optional_no_ca;", "ssl_client_certificate c.pem;"}}, "ssl_verify_depth": nil,
		"ssl_crl": nil, "ssl_password_file": at("ssl", "ssl_password_file key;"),
		"ssl_reject_handshake": at("ssl", "ssl_reject_handshake on;"),
		"ssl_session_tickets":  at("ssl", "ssl_session_tickets off;"),
		"ssl_session_cache": {{"ssl", "ssl_session_cache shared:a:1m;", "ssl_session_tickets off;"},
			{"ssl", "ssl_session_cache builtin:100;", "ssl_session_tickets off;"}},
		"ssl_session_timeout":    {{"ssl", "ssl_session_timeout 1d;", "ssl_session_tickets off; ssl_session_cache shared:a:1m;"}},
		"ssl_session_ticket_key": at("ssl", "ssl_session_ticket_key ticket.key;"),
		"health_check": {{"proxy", "health_check;", ""},
			{"proxy", "health_check interval=1 jitter=1 fails=2 passes=2;", ""},
			{"proxy", "health_check uri=/a port=81 mandatory persistent keepalive_time=1m;", ""},
			{"proxy", "health_check match=m;", ""}},
		"match":  at("proxy", "health_check match=m;"),
		"status": {{"match", "status 200-299;", ""}, {"match", "status ! 500;", ""}},
		"header": {{"match", "header A;", ""}, {"match", "header ! A;", ""}, {"match", "header A = b;", ""},
			{"match", "header A !~ b;", ""}},
		"body":     {{"match", "body ~ a;", ""}, {"match", "body !~ a;", ""}},
		"upstream": at("http", "upstream v { server a; }"),
		"hash":     at("upstream", "hash $uri;", "hash $uri consistent;"),
		"ip_hash":  at("upstream", "ip_hash;"), "least_conn": at("upstream", "least_conn;"),
		"random":    at("upstream", "random;", "random two;"),
		"keepalive": at("upstream", "keepalive 5;"),
		"proxy_pass": {{"location", "proxy_pass http://a;", ""}, {"location", "proxy_pass http://a/b;", ""},
			{"location", "proxy_pass https://a;", ""}},
		"proxy_redirect": at("proxy", "proxy_redirect a b;", "proxy_redirect off;",
			"proxy_redirect default; proxy_redirect a b;"),
		"proxy_cookie_domain": at("proxy", "proxy_cookie_domain a b;"),
		"proxy_cookie_path":   at("proxy", "proxy_cookie_path a b;"),
		"proxy_cookie_flags":  at("proxy", "proxy_cookie_flags a secure;", "proxy_cookie_flags $host $uri;"),
		"proxy_set_header":    at("proxy", "proxy_set_header A b;"), "proxy_set_body": at("proxy", "proxy_set_body a;"),
		"proxy_method": at("proxy", "proxy_method GET;"), "proxy_http_version": at("proxy", "proxy_http_version 1.1;",
			"proxy_http_version 2;"),
		"proxy_cache_path": at("http", "proxy_cache_path /e keys_zone=e:1m;", "proxy_cache_path /e keys_zone=e:2m;",
			"proxy_cache_path /e keys_zone=e:1m levels=1:2 max_size=5m inactive=1m min_free=1m;"),
		"fastcgi_cache_path":            at("http", "fastcgi_cache_path /e keys_zone=e:1m;"),
		"proxy_ssl_protocols":           at("https", "proxy_ssl_protocols TLSv1.2;"),
		"proxy_ssl_ciphers":             at("https", "proxy_ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;"),
		"proxy_ssl_name":                at("https", "proxy_ssl_name a;"),
		"proxy_ssl_server_name":         at("https", "proxy_ssl_server_name on;"),
		"proxy_ssl_verify":              {{"https", "proxy_ssl_verify on;", "proxy_ssl_trusted_certificate c.pem;"}},
		"proxy_ssl_trusted_certificate": at("https", "proxy_ssl_trusted_certificate c.pem;"),
		"proxy_ssl_verify_depth":        nil,
		"proxy_ssl_crl":                 nil,
		"proxy_ssl_session_reuse":       at("https", "proxy_ssl_session_reuse off;"),
		"proxy_ssl_password_file": {{"https", "proxy_ssl_password_file key;",
			"proxy_ssl_certificate $host; proxy_ssl_certificate_key $host;"}},
		"proxy_ssl_certificate":     at("https", "proxy_ssl_certificate c.pem; proxy_ssl_certificate_key c.key;"),
		"proxy_ssl_certificate_key": at("https", "proxy_ssl_certificate c.pem; proxy_ssl_certificate_key c.key;"),
		"fastcgi_pass":              at("location", "fastcgi_pass a:1;"),
		"fastcgi_index":             at("fastcgi", "fastcgi_index a;"),
		"fastcgi_split_path_info":   at("fastcgi", "fastcgi_split_path_info a;"),
		"fastcgi_param":             at("fastcgi", "fastcgi_param A b;", "fastcgi_param A b if_not_empty;"),
		"fastcgi_keep_conn":         at("fastcgi", "fastcgi_keep_conn on;"),
		"fastcgi_catch_stderr":      at("fastcgi", "fastcgi_catch_stderr a;"),
		"grpc_bind":                 {{"location", "grpc_bind 127.0.0.1;", "grpc_pass u;"}},
		"fastcgi_cache":             at("fastcgi", "fastcgi_cache d;"), "fastcgi_cache_key": nil,
		"proxy_cache": at("proxy", "proxy_cache c;", "proxy_cache $host;"), "proxy_cache_key": nil,
	}
	all["grpc_pass"] = at("location", "grpc_pass u;", "grpc_pass grpcs://u;", "grpc_pass grpc://a:1;")
	for _, text := range []string{"set_header A b", "connect_timeout 1s", "send_timeout 1s", "read_timeout 1s",
		"intercept_errors on", "next_upstream http_503", "next_upstream_tries 2", "next_upstream_timeout 1s",
		"pass_header Server", "hide_header A", "ignore_headers X-Accel-Redirect"} {
		all["grpc_"+strings.Fields(text)[0]] = []sample{{"location", "grpc_" + text + ";", "grpc_pass u;"}}
	}
	for name, samples := range all {
		if rest, ok := strings.CutPrefix(name, "proxy_ssl_"); ok && samples == nil {
			all["grpc_ssl_"+rest] = nil
		} else if ok {
			grpc := samples[0]
			grpc.level, grpc.text = "location", strings.ReplaceAll(grpc.text, "proxy_", "grpc_")
			grpc.needs = "grpc_pass grpcs://u; " + strings.ReplaceAll(grpc.needs, "proxy_", "grpc_")
			all["grpc_ssl_"+rest] = []sample{grpc}
		}
	}
	for _, text := range []string{"gzip_types a/b", "gzip_comp_level 5", "gzip_min_length 5", "gzip_vary on",
		"gzip_proxied any", "gzip_http_version 1.0", "gzip_disable a"} {
		all[strings.Fields(text)[0]] = []sample{{"location", text + ";", "gzip on;"}}
	}
	for _, name := range []string{"brotli", "zstd"} {
		all[name] = at("location", name+" on;")
		for _, text := range []string{"_types a/b", "_comp_level 5", "_min_length 5"} {
			all[name+strings.Fields(text)[0]] = []sample{{"location", name + text + ";", name + " on;"}}
		}
	}
	all["userid"] = at("location", "userid on;", "userid v1;", "userid log;")
	for _, text := range []string{"name a", "domain a", "path /a", "expires 1d", "expires max", "p3p a", "mark a",
		"service 7", "flags secure", "flags samesite=lax httponly"} {
		name := "userid_" + strings.Fields(text)[0]
		all[name] = append(all[name], sample{"location", "userid_" + text + ";", "userid on;"})
	}
	for _, name := range []string{"add_before_body", "add_after_body"} {
		all[name] = at("location", name+" /a;")
	}
	all["addition_types"] = []sample{{"location", "addition_types a/b;", "add_after_body /a;"}}
	all["max_ranges"] = at("location", "max_ranges 0;", "max_ranges 1;")
	all["sub_filter"] = at("location", "sub_filter a b;", "sub_filter a c;", "sub_filter a b; sub_filter c d;")
	for _, text := range []string{"sub_filter_types a/b", "sub_filter_once off", "sub_filter_last_modified on"} {
		all[strings.Fields(text)[0]] = []sample{{"location", text + ";", "sub_filter a b;"}}
	}
	for _, kind := range []string{"proxy", "fastcgi", ""} {
		for _, text := range []string{
			"buffering off", "request_buffering off", "ignore_client_abort on", "connect_timeout 1s",
			"send_timeout 1s", "intercept_errors on", "pass_request_headers off", "pass_request_body off",
			"read_timeout 1s",
			"buffers 4 4k", "max_temp_file_size 0", "max_temp_file_size 4k", "next_upstream http_404",
			"next_upstream off", "next_upstream non_idempotent error", "next_upstream_tries 2",
			"next_upstream_timeout 1s", "pass_header A", "hide_header A", "ignore_headers Vary",
			"bind 127.0.0.1", "bind [::1]:80", "bind $host:$arg_p", "limit_rate 5", "force_ranges on",
		} {
			name := kind + "_" + strings.Fields(text)[0]
			all[name] = append(all[name], sample{kind, kind + "_" + text + ";", ""})
		}
		for _, text := range []string{
			"cache_key a", "cache_bypass $host", "no_cache $host", "cache_purge $host $uri", "cache_valid 1m",
			"cache_valid 200 1m", "cache_valid any 1m", "cache_min_uses 2", "cache_use_stale error updating http_500",
			"cache_methods POST", "cache_lock on",
			"cache_lock_timeout 1s", "cache_lock_age 1s", "cache_revalidate on", "cache_background_update on",
			"cache_max_range_offset 0", "cache_max_range_offset 5",
		} {
			name := kind + "_" + strings.Fields(text)[0]
			cache := "proxy_cache c;"
			if kind == "fastcgi" {
				cache = "fastcgi_cache d;"
			}
			all[name] = append(all[name], sample{kind, kind + "_" + text + ";", cache})
		}
	}
	maps.Copy(all, acmeSamples())
	all["otel_exporter"], all["endpoint"] = exporter(""), exporter("")
	for _, text := range []string{"trusted_certificate c.pem", "header A b", "interval 1s", "batch_size 9",
		"batch_count 9"} {
		name := strings.Fields(text)[0]
		all[name] = append(all[name], exporter(text)...)
	}
	all["otel_service_name"] = []sample{{"http", "otel_service_name a;", exporter("")[0].text}}
	all["otel_resource_attr"] = []sample{{"http", "otel_resource_attr a b;", exporter("")[0].text}}
	all["slice"] = at("proxy", "slice 1m;")
	all["proxy_cache_convert_head"] = []sample{{"proxy", "proxy_cache_convert_head off;", "proxy_cache c;"}}
	return all
}

// exporter returns a sample of otel_exporter with one more directive.
func exporter(text string) []sample {
	if text != "" {
		text += ";"
	}
	return []sample{{"http", "otel_exporter { endpoint a:1; " + text + " }", ""}}
}

// fill inserts a sample into the base.
func fill(s sample) string {
	text := base
	s.text = s.needs + " " + s.text
	if s.level == "match" {
		text = strings.Replace(text, "@proxy", "health_check match=m;", 1)
	}
	for _, level := range []string{"main", "events", "https", "http", "map", "upstream", "match", "server",
		"ssl", "proxy", "fastcgi", "location", "issuer", "acme"} {
		in := ""
		if level == s.level {
			in = s.text
		}
		text = strings.Replace(text, "@"+level, in, 1)
	}
	return text
}

// Every supported directive has an effect, and each of its forms a different one.
func TestSupportedDirectiveHasAnEffect(t *testing.T) {
	fsys := withCertificate(t, fstest.MapFS{"gzip.conf": {Data: []byte("gzip on;")}, "key": {Data: []byte("x")},
		"ticket.key": {Data: make([]byte, 48)}})
	parse := func(text string) string {
		fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(text)}
		r, err := Parse("nginx.conf", Options{FS: fsys, DefaultPort: 80, HTTP3: true, Tracing: true})
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			return ""
		}
		return dumped(t, r)
	}
	all := samples()
	for _, s := range syntax.ParseTable(tableText).All {
		own, ok := all[s.Name]
		if s.Support == syntax.Supported && !ok {
			t.Errorf("%s is supported, but has no sample", s.Name)
		}
		seen := make(map[string]string)
		for _, sample := range own {
			without := sample
			without.text = ""
			seen[parse(fill(without))] = "its absence"
			got := parse(fill(sample))
			if other, ok := seen[got]; ok {
				t.Errorf("%s %s: same effect as %s", sample.level, sample.text, other)
			}
			seen[got] = sample.text
		}
	}
}

// withCertificate adds a certificate and its key to files.
func withCertificate(t *testing.T, fsys fstest.MapFS) fstest.MapFS {
	t.Helper()
	cert, key := testkit.SelfSign(t, x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	fsys["c.pem"], fsys["c.key"] = &fstest.MapFile{Data: cert}, &fstest.MapFile{Data: key}
	return fsys
}
