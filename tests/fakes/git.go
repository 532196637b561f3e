package fakes

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
)

// Git serves the repositories below dir over HTTP by git's own http-backend, to
// fetch from and to push to.
func Git(dir string) (http.Handler, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("find git http-backend: %w", err)
	}
	h := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Dir:  dir,
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http/cgi refuses chunked bodies, for want of a length to name to
		// the program; this one reads to the end when there is none.
		r.TransferEncoding = nil
		// The program answers while the pack still comes; net/http would take
		// what it finds of an HTTP/1.1 body then, and throw it away.
		http.NewResponseController(w).EnableFullDuplex()
		h.ServeHTTP(w, r)
		// The program stops at the end of the pack. Over HTTP/2 a body that is
		// not read to its end is reset, which curl takes for an error.
		io.Copy(io.Discard, r.Body)
	}), nil
}
