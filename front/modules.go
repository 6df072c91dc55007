package front

// modules are all modules. In a phase, their steps come in this order, and so do their fields, bodies
// and logs.
func modules() []module {
	return []module{
		traceModule(),
		tlsModule(),
		limitsModule(),
		accessModule(),
		tryFilesModule(),
		mirrorModule(),
		proxyModule(),
		statusModule(),
		metricsModule(),
		emptyGIFModule(),
		filesModule(), // the content where no other module has one
		userIDModule(),
		refererModule(),
		secureLinkModule(),
		geoModule(),
		splitClientsModule(),
		sliceModule(),
		charsetModule(),
		subFilterModule(),
		additionModule(),
		compressModule(),
		accessLogModule(),
	}
}
