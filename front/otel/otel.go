package otel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/server"
)

// nginx's defaults.
const (
	defaultInterval   = 5 * time.Second
	defaultBatchSize  = 512
	defaultBatchCount = 4
	defaultService    = "unknown_service:nginx"
)

const (
	// exportTimeout limits sending a batch, with all attempts. Spans that end meanwhile are queued.
	exportTimeout = 10 * time.Second
	// firstRetry is the wait before the second attempt. Later ones are longer, up to lastRetry.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxBatch and maxBatches bound the memory of the queue.
	maxBatch, maxBatches = 10_000, 100
)

// scope is the name of the instrumentation in exported spans.
const scope = "github.com/tarehq/tare/front"

// New returns what exports spans, for server.Options.Tracing.
func New() server.Tracing { return open }

func open(c conf.SpanExporter, errors *log.Logger) (func(front.Span), func(context.Context) error, error) {
	client, err := otlptracegrpc.New(context.Background(), clientOptions(&c)...)
	if err != nil {
		return nil, nil, err
	}
	size := min(cmp.Or(c.BatchSize, defaultBatchSize), maxBatch)
	queue := size * min(cmp.Or(c.BatchCount, defaultBatchCount), maxBatches)
	e := &exporter{client: client, errors: errors, endpoint: c.Endpoint, capacity: int64(queue + size)}
	e.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // the front has decided
		sdk.WithIDGenerator(givenIDs{}),
		sdk.WithResource(resourceOf(&c)),
		sdk.WithBatcher(e, sdk.WithBatchTimeout(cmp.Or(c.Interval, defaultInterval)), sdk.WithMaxExportBatchSize(size),
			sdk.WithMaxQueueSize(queue), sdk.WithExportTimeout(exportTimeout)),
	)
	e.tracer = e.provider.Tracer(scope)
	return e.export, e.shutdown, nil
}

func clientOptions(c *conf.SpanExporter) []otlptracegrpc.Option {
	security := otlptracegrpc.WithInsecure()
	if c.TLS {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if len(c.Trusted) > 0 {
			config.RootCAs = x509.NewCertPool()
		}
		for _, cert := range c.Trusted {
			config.RootCAs.AddCert(cert)
		}
		security = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config))
	}
	header := make(map[string]string, len(c.Header))
	for _, f := range c.Header {
		header[strings.ToLower(f.Name)] = string(f.Value) // gRPC requires lower case
	}
	return []otlptracegrpc.Option{
		security, otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithHeaders(header),
		otlptracegrpc.WithTimeout(exportTimeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: exportTimeout,
		}),
	}
}

// resourceOf returns what describes the process.
func resourceOf(c *conf.SpanExporter) *resource.Resource {
	all := []attribute.KeyValue{attribute.String("service.name", textOf(cmp.Or(c.Service, defaultService)))}
	for _, a := range c.Attributes {
		all = append(all, attribute.String(textOf(a.Name), textOf(string(a.Value))))
	}
	return resource.NewSchemaless(all...)
}
