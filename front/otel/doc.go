// Package otel sends the spans of package front/server to a collector, with OpenTelemetry's SDK and
// by OTLP over gRPC, as nginx's module does. A program that does not import it does not carry gRPC.
//
//	options := server.Options{Tracing: otel.New()}
//
// The configuration has the collector's address, in otel_exporter, and selects by otel_trace which
// requests are exported. Requests never wait: spans are queued, and dropped if the queue is full. A
// batch that the collector does not accept within 10 seconds is dropped, too.
package otel
