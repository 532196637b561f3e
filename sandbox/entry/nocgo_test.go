//go:build !cgo

package entry

// withCgo: see cgo_test.go.
const withCgo = false
