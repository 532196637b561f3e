package fakes

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Package is what the stand-ins for package registries serve: one version of
// one package, with its files.
type Package struct {
	Name, Version string
	Files         map[string][]byte
}

// names lists the files in order, so that the same package makes the same
// archive.
func (p Package) names() []string { return slices.Sorted(maps.Keys(p.Files)) }

// NPM is a registry of npm packages that holds p.
func NPM(p Package) (http.Handler, error) {
	manifest, err := json.Marshal(map[string]any{"name": p.Name, "version": p.Version})
	if err != nil {
		return nil, err
	}
	p.Files = maps.Clone(p.Files)
	p.Files["package.json"] = manifest
	archive, err := p.tarball("package/")
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(archive)
	file := fmt.Sprintf("/%s/-/%s-%s.tgz", p.Name, p.Name, p.Version)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+p.Name, func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, map[string]any{
			"name": p.Name, "dist-tags": map[string]string{"latest": p.Version},
			"versions": map[string]any{p.Version: map[string]any{
				"name": p.Name, "version": p.Version, "dist": map[string]string{
					"tarball":   scheme(r) + "://" + r.Host + file,
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
	mux.HandleFunc("GET "+file, bytesOf("application/octet-stream", archive))
	return mux, nil
}

// PyIndex is an index of Python packages (the simple repository API) that holds
// p as a wheel.
func PyIndex(p Package) (http.Handler, error) {
	info := fmt.Sprintf("%s-%s.dist-info/", p.Name, p.Version)
	p.Files = maps.Clone(p.Files)
	p.Files[info+"METADATA"] = fmt.Appendf(nil, "Metadata-Version: 2.1\nName: %s\nVersion: %s\n", p.Name, p.Version)
	p.Files[info+"WHEEL"] = []byte("Wheel-Version: 1.0\nGenerator: aisb\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	var record strings.Builder
	for _, name := range p.names() {
		sum := sha256.Sum256(p.Files[name])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(p.Files[name]))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	p.Files[info+"RECORD"] = []byte(record.String())
	wheel, err := p.zip("")
	if err != nil {
		return nil, err
	}
	file := fmt.Sprintf("%s-%s-py3-none-any.whl", p.Name, p.Version)
	sum := sha256.Sum256(wheel)
	page := fmt.Sprintf("<!DOCTYPE html><a href=\"/files/%s#sha256=%s\">%s</a>\n", file, hex.EncodeToString(sum[:]), file)
	mux := http.NewServeMux()
	// The path has the normalized name, with hyphens.
	mux.HandleFunc("GET /simple/"+strings.ReplaceAll(p.Name, "_", "-")+"/", bytesOf("text/html", []byte(page)))
	mux.HandleFunc("GET /files/"+file, bytesOf("application/octet-stream", wheel))
	return mux, nil
}

// GoModules is a GOPROXY that holds p as a module; Name is its path.
func GoModules(p Package) (http.Handler, error) {
	mod := fmt.Appendf(nil, "module %s\n", p.Name)
	p.Files = maps.Clone(p.Files)
	p.Files["go.mod"] = mod
	archive, err := p.zip(p.Name + "@" + p.Version + "/")
	if err != nil {
		return nil, err
	}
	at := "GET /" + p.Name + "/@v/" + p.Version
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+p.Name+"/@v/list", bytesOf("text/plain", []byte(p.Version+"\n")))
	mux.HandleFunc(at+".info", bytesOf("application/json", fmt.Appendf(nil, "{\"Version\":%q}\n", p.Version)))
	mux.HandleFunc(at+".mod", bytesOf("text/plain", mod))
	mux.HandleFunc(at+".zip", bytesOf("application/zip", archive))
	return mux, nil
}

// Debian is an apt repository without signatures, of the suite "stable", that
// holds p for all architectures; Deb is the file that a client gets.
func Debian(p Package) (h http.Handler, deb []byte, err error) {
	if deb, err = p.deb(); err != nil {
		return nil, nil, err
	}
	file := fmt.Sprintf("pool/%s_%s_all.deb", p.Name, p.Version)
	packages := p.control() + fmt.Sprintf("Filename: %s\nSize: %d\nSHA256: %x\n\n", file, len(deb), sha256.Sum256(deb))
	var release strings.Builder
	fmt.Fprintf(&release, "Suite: stable\nCodename: stable\nDate: %s\nArchitectures: all amd64 arm64\nComponents: main\nSHA256:\n",
		time.Now().UTC().Format(time.RFC1123))
	mux := http.NewServeMux()
	for _, arch := range []string{"all", "amd64", "arm64"} {
		name := "main/binary-" + arch + "/Packages"
		fmt.Fprintf(&release, " %x %d %s\n", sha256.Sum256([]byte(packages)), len(packages), name)
		mux.HandleFunc("GET /dists/stable/"+name, bytesOf("text/plain", []byte(packages)))
	}
	mux.HandleFunc("GET /dists/stable/Release", bytesOf("text/plain", []byte(release.String())))
	mux.HandleFunc("GET /"+file, bytesOf("application/octet-stream", deb))
	return mux, deb, nil
}

// control is a package's own description (deb-control(5)).
func (p Package) control() string {
	return fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: stand-in\n",
		p.Name, p.Version)
}

// deb is the package as deb(5) has it: an ar archive of two tarballs.
func (p Package) deb() ([]byte, error) {
	control, err := Package{Files: map[string][]byte{"control": []byte(p.control())}}.tarball("./")
	if err != nil {
		return nil, err
	}
	data, err := p.tarball("./usr/share/" + p.Name + "/")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", data}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}

func (p Package) tarball(prefix string) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range p.names() {
		if err := w.WriteHeader(&tar.Header{Name: prefix + name, Mode: 0o644, Size: int64(len(p.Files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(p.Files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p Package) zip(prefix string) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range p.names() {
		w, err := z.Create(prefix + name)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(p.Files[name]); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// bytesOf answers with the same bytes each time.
func bytesOf(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		io.Copy(w, bytes.NewReader(data))
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
