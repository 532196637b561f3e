package ground

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Step is what a client sends and how it knows that the answer is whole.
type Step struct {
	Send  []byte
	Whole func(got []byte) bool
}

// Load is many connections that each take the same steps. One thread drives
// them, with few system calls, so that the load costs less than any proxy.
type Load struct {
	Port  int // of the proxy, on 127.0.0.1
	Steps []Step
	Again int           // how often the last step is taken again
	Width int           // connections at once
	Count int           // connections in all
	Keep  bool          // leave them open
	Limit time.Duration // of the whole load
}

// Done is what became of a load.
type Done struct {
	Wall  time.Duration
	Times []time.Duration // from connecting to the last answer, or of each step that was taken again
	Kept  []int           // descriptors
}

type client struct {
	fd    int
	begin time.Time
	step  int
	again int
	sent  bool // the step's bytes
	got   []byte
}

// Run takes the load to its end. Any answer that is not as it should be is an
// error: a proxy that refuses is fast.
func (l Load) Run() (Done, error) {
	var d Done
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return d, err
	}
	defer unix.Close(epoll)
	begin, live, started := time.Now(), map[int]*client{}, 0
	defer func() {
		for fd := range live {
			unix.Close(fd)
		}
	}()
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, 64<<10)
	for started < l.Count || len(live) > 0 {
		for started < l.Count && len(live) < l.Width {
			c, err := l.connect(epoll)
			if err != nil {
				return d, err
			}
			live[c.fd] = c
			started++
		}
		n, err := unix.EpollWait(epoll, events, 5000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return d, err
		}
		if time.Since(begin) > l.Limit {
			return d, fmt.Errorf("%d of %d connections in %v", started-len(live), l.Count, l.Limit)
		}
		for _, e := range events[:max(n, 0)] {
			c := live[int(e.Fd)]
			over, err := l.move(c, buf, &d)
			if err != nil {
				return d, fmt.Errorf("connection %d: %w", started, err)
			}
			if !over {
				continue
			}
			delete(live, c.fd)
			if l.Keep {
				d.Kept = append(d.Kept, c.fd)
				err = unix.EpollCtl(epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
			} else {
				err = unix.Close(c.fd)
			}
			if err != nil {
				return d, err
			}
		}
	}
	d.Wall = time.Since(begin)
	return d, nil
}

func (l Load) connect(epoll int) (*client, error) {
	c := &client{begin: time.Now()}
	var err error
	if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	err = unix.Connect(c.fd, &unix.SockaddrInet4{Port: l.Port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil || errors.Is(err, unix.EINPROGRESS) {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET&0xffffffff, Fd: int32(c.fd)}
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.fd, &e)
	}
	if err != nil {
		unix.Close(c.fd)
		return nil, err
	}
	return c, nil
}

// move does what can be done now and reports whether that was all.
func (l Load) move(c *client, buf []byte, d *Done) (over bool, err error) {
	for {
		s := l.Steps[c.step]
		if !c.sent {
			n, err := unix.Write(c.fd, s.Send)
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOTCONN) {
				return false, nil // not connected yet
			}
			if err != nil || n < len(s.Send) {
				return false, fmt.Errorf("step %d: %d of %d bytes sent: %w", c.step, n, len(s.Send), err)
			}
			c.sent = true
			return false, nil // the answer can't be there yet
		}
		n, err := unix.Read(c.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return false, nil
		}
		if err != nil || n == 0 {
			return false, fmt.Errorf("step %d: the proxy hung up after %q: %v", c.step, c.got, err)
		}
		got := buf[:n]
		if len(c.got) > 0 {
			c.got = append(c.got, got...)
			got = c.got
		}
		if !s.Whole(got) {
			c.got = bytes.Clone(got)
			return false, nil
		}
		if !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) && !bytes.HasPrefix(got, []byte("HTTP/1.0 200")) && len(got) != len("TLS!") {
			return false, fmt.Errorf("step %d: the answer is %.200q", c.step, got)
		}
		c.got, c.sent = nil, false
		if c.step < len(l.Steps)-1 {
			c.step++
			continue
		}
		d.Times = append(d.Times, time.Since(c.begin))
		if c.again++; c.again > l.Again {
			return true, nil
		}
		c.begin = time.Now()
	}
}
