package front

import (
	"github.com/tarehq/tare/front/internal/clients"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/guard"
	"github.com/tarehq/tare/front/internal/observe"
	"github.com/tarehq/tare/front/internal/proxy"
	"github.com/tarehq/tare/front/internal/static"
	"github.com/tarehq/tare/front/internal/transform"
)

// modules are all modules. In a phase, their steps come in this order, and so do their fields, bodies
// and logs.
func modules() []core.Module {
	return []core.Module{
		observe.TraceModule(),
		guard.TLSModule(),
		guard.LimitsModule(),
		guard.AccessModule(),
		static.TryFilesModule(),
		proxy.MirrorModule(),
		proxy.ProxyModule(),
		observe.StatusModule(),
		observe.MetricsModule(),
		static.EmptyGIFModule(),
		static.FilesModule(), // the content where no other module has one
		clients.UserIDModule(),
		guard.RefererModule(),
		guard.SecureLinkModule(),
		clients.GeoModule(),
		clients.SplitClientsModule(),
		proxy.SliceModule(),
		transform.CharsetModule(),
		transform.SubFilterModule(),
		transform.AdditionModule(),
		transform.CompressModule(),
		observe.AccessLogModule(),
	}
}
