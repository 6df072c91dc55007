module github.com/tarehq/tare/contenders/engines

go 1.26.0

require (
	github.com/tarehq/tare v0.0.0
	github.com/valyala/fasthttp v1.65.0
)

require (
	github.com/andybalholm/brotli v1.2.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)

replace github.com/tarehq/tare => ../../
