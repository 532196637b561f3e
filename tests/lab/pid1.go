//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// initName is argv[0] of an entry's first process.
const initName = "aisb-lab-init"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// initMain is the first process of an entry: it enters, starts the command,
// reaps whatever is left to it, and ends with the command's status. With it the
// kernel ends everything else in the PID namespace.
func initMain() int {
	var ord order
	in := os.NewFile(3, "order")
	err := json.NewDecoder(in).Decode(&ord)
	in.Close()
	if err == nil {
		err = enter(ord)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: error: enter:", err)
		return 1
	}
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, passedSignals...)
	dropTerminalSignals()
	proc, err := startCommand(ord)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: error:", err)
		return 127
	}
	go func() {
		for s := range ch {
			_ = proc.Signal(s) // it may have ended just now
		}
	}()
	return reap(proc.Pid)
}

func startCommand(ord order) (*os.Process, error) {
	home, name, attr := "/root", "root", &syscall.SysProcAttr{}
	if !ord.AsRoot {
		home, name = userHome, userName
		attr.Credential = &syscall.Credential{Uid: userID, Gid: userID, Groups: []uint32{userID}}
	}
	env := []string{
		"HOME=" + home, "USER=" + name, "LOGNAME=" + name, "SHELL=/bin/bash", "LANG=C.UTF-8", "AISB_LAB=1",
		"TERM=" + os.Getenv("TERM"),
	}
	if !ord.AsRoot {
		env = append(env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", userID))
	}
	path := defaultPath
	for _, v := range ord.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	env = append(append(env, "PATH="+path), ord.Env...)
	if err := os.Setenv("PATH", path); err != nil { // for LookPath
		return nil, err
	}
	file, err := exec.LookPath(ord.Argv[0])
	if err != nil {
		return nil, err
	}
	dir := ord.Dir
	if dir == "" {
		dir = home
	}
	return os.StartProcess(file, ord.Argv, &os.ProcAttr{
		Dir: dir, Env: env, Sys: attr, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
}

// reap waits for all children until the one with this pid has ended.
func reap(pid int) int {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "lab: error: wait:", err)
			return 1
		case got == pid && ws.Signaled():
			return 128 + int(ws.Signal())
		case got == pid:
			return ws.ExitStatus()
		}
	}
}
