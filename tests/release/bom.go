//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
)

// bomTool lists what a binary says that it was made of, as CycloneDX.
const bomTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// bom writes the list of binary's modules to a file. Its serial number is made of the
// binary's hash: the same binary has the same list.
func (b build) bom(ctx context.Context, binary, to string) error {
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	out, err := output(b.command(ctx, nil, goTool(), "run", bomTool, "bin", "-json", "-std", "-notimestamp",
		"-serial", serial(sha256.Sum256(text)), "-version", b.src.name, binary))
	if err != nil {
		return err
	}
	if out, err = settle(out); err != nil {
		return err
	}
	return os.WriteFile(to, out, 0o644)
}

// serial makes a UUID of a hash (RFC 9562, section 5.8).
func serial(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// settle leaves the tool's own hashes out, which are other ones on a machine of
// another architecture.
func settle(text []byte) ([]byte, error) {
	var list map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", bomTool, err)
	}
	if meta, ok := list["metadata"].(map[string]any); ok {
		dropHashes(meta["tools"])
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(list)
	return out.Bytes(), err
}

func dropHashes(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			dropHashes(one)
		}
	case map[string]any:
		delete(v, "hashes")
		for _, one := range v {
			dropHashes(one)
		}
	}
}
