module github.com/tarehq/tare/contenders

go 1.26.0

require (
	github.com/fasthttp/router v1.5.4
	github.com/go-sql-driver/mysql v1.10.1
	github.com/hoisie/web v0.1.1-0.20160809141353-a498c022b2c0
	github.com/tarehq/tare v0.0.0
	github.com/valyala/fasthttp v1.74.0
	golang.org/x/sys v0.49.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/andybalholm/brotli v1.2.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/go-crypt/x v0.4.17 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/molecule-man/go-brrr v1.0.1 // indirect
	github.com/savsgio/gotils v0.0.0-20240704082632-aef3928b8a38 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	kernel.org/pub/linux/libs/security/libcap/psx v1.2.78 // indirect
)

replace github.com/tarehq/tare => ../
