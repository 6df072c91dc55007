// Package observe reports what happens: access logs, traces, metrics and stub_status.
package observe
