//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

func volumeClaims() []claim {
	return []claim{
		{"g1", "a new named volume over a directory that the image has takes over its owner, 1000, under keep-id with --user 0:0", claimHome},
		{"g2", "where the image lacks the directory the volume is container root's: an own step must give it to 1000", claimHomeMissing},
		{"g3", "with --unsetenv-all the first process has nothing of the image's or the host's environment but HOSTNAME, HOME and the like", claimEnvironment},
		{"g4", "a sysctl of the container's own network namespace bounds the send buffer", claimSysctl},
		{"g5", "--shm-size works; limits of pids and memory work or are refused with a reason", claimLimits},
		{"g6", "own hosts and resolv.conf by read-only binds are what the container has", claimFiles},
		{"g7", "--dns=none keeps the image's own resolv.conf, and with --network=none it is an error", claimDNSNone},
		{"g8", "the mount points of a sandbox", claimMountPoints},
	}
}

// owner starts a box with a new volume at a place and returns who owns it.
func (t *trial) owner(at string) (string, error) {
	name := fmt.Sprintf("aisb-spike-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
	b, err := t.start(plan{extra: []string{"--mount", "type=volume,source=" + name + ",target=" + at}})
	if err != nil {
		return "", err
	}
	a, err := t.sh(b, "stat -c '%u:%g %a' "+at+"; ls -A "+at)
	_ = b.stop()
	if _, _, rerr := t.podman("volume", "rm", name); rerr != nil {
		err = errors.Join(err, rerr)
	}
	return a.Out, err
}

func claimHome(t *trial) error {
	owner, err := t.owner("/home/agent")
	if err == nil && !strings.HasPrefix(owner, "1000:1000 ") {
		err = errors.New("not 1000's")
	}
	return err
}

func claimHomeMissing(t *trial) error {
	owner, err := t.owner("/not/in/the/image")
	if err == nil && !strings.HasPrefix(owner, "0:0 ") {
		err = errors.New("not container root's")
	}
	return err
}

func claimEnvironment(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	a, err := t.sh(b, `tr '\0' '\n' </proc/1/environ | sort`)
	for line := range strings.Lines(a.Out) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !strings.Contains(" HOME HOSTNAME PWD TERM container ", " "+name+" ") {
			return fmt.Errorf("%s is in it", name)
		}
	}
	return err
}

func claimSysctl(t *trial) error {
	b, err := t.start(plan{extra: []string{"--sysctl", "net.ipv4.tcp_wmem=4096 16384 131072"}})
	if err != nil {
		return err
	}
	a, err := t.sh(b, "cat /proc/sys/net/ipv4/tcp_wmem /proc/sys/net/ipv4/tcp_congestion_control")
	if err == nil && !strings.HasPrefix(a.Out, "4096\t16384\t131072") {
		err = errors.New("another bound")
	}
	return err
}

func claimLimits(t *trial) error {
	b, err := t.start(plan{extra: []string{"--shm-size", "77m"}})
	if err != nil {
		return err
	}
	a, err := t.sh(b, "df -k --output=size /dev/shm | tail -1")
	if err != nil {
		return err
	}
	if strings.TrimSpace(a.Out) != "78848" {
		return errors.New("another size")
	}
	for _, flag := range []string{"--pids-limit=50", "--memory=64m", "--cpus=1"} {
		b, err := t.start(plan{extra: []string{flag}})
		if err != nil {
			t.saw("refused: %v", err)
			continue
		}
		t.saw("podman said: %s", strings.TrimSpace(b.err.String()))
		if _, err := t.sh(b, "cd /sys/fs/cgroup && cat cgroup.controllers; grep -s . pids.max memory.max cpu.max; true"); err != nil {
			return err
		}
	}
	return nil
}

func claimFiles(t *trial) error {
	var extra []string
	for name, text := range map[string]string{"hosts": "127.0.0.1 localhost aisb\n", "resolv.conf": "# no resolver\n"} {
		path := t.env.dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		extra = append(extra, "--mount", "type=bind,source="+path+",target=/etc/"+name+",ro=true")
	}
	b, err := t.start(plan{extra: append(extra, "--hostname", "aisb")})
	if err != nil {
		return err
	}
	a, err := t.sh(b, `cat /etc/hosts /etc/resolv.conf; echo "name $(hostname) $(cat /etc/hostname)"; echo x 2>&1 >>/etc/hosts
python3 -c '
import socket, time
start = time.time()
try: socket.getaddrinfo("example.com", 80)
except OSError as e: print("look-up:", e, "after %d ms" % ((time.time() - start) * 1000))'`)
	if err == nil && !strings.HasPrefix(a.Out, "127.0.0.1 localhost aisb\n# no resolver\nname aisb aisb\n") {
		err = errors.New("other files")
	}
	return err
}

func claimMountPoints(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	_, err = t.sh(b, `sed 's/ - / /' /proc/self/mountinfo | awk '{print $5, $6, $(NF-2)}' | sed "s/,relatime//"`)
	return err
}

func claimDNSNone(t *trial) error {
	b, err := t.start(plan{extra: []string{"--dns=none"}})
	if err != nil {
		return err
	}
	a, err := t.sh(b, "cat /etc/resolv.conf; grep -c /etc/resolv.conf /proc/self/mountinfo")
	if err != nil {
		return err
	}
	if !strings.HasSuffix(a.Out, "0") {
		return errors.New("something is mounted over it")
	}
	_, err = t.start(plan{extra: []string{"--dns=none"}, network: "none"})
	t.saw("%v", err)
	if err == nil {
		return errors.New("it was taken")
	}
	return nil
}
