package fakes

import (
	"crypto/subtle"
	"net"
	"net/http"
	"os/exec"
)

// Program serves each connection by a shell command, whose standard input and
// output it is, as inetd does.
func Program(command string) Talk {
	return func(c *net.TCPConn) int64 {
		f, err := c.File()
		if err != nil {
			return 0
		}
		defer f.Close()
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Stdin, cmd.Stdout = f, f
		cmd.Run() // what it says went to the client
		return 0
	}
}

// Login lets those through to h who have the password, by Basic (RFC 7617), and
// logs the user name of each as the event's Key.
func Login(h http.Handler, password string, log *Log) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, got, _ := r.BasicAuth()
		log.Add(Event{Fake: "login", Host: r.Host, Key: user})
		if subtle.ConstantTimeCompare([]byte(got), []byte(password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
