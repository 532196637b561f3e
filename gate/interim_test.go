package gate

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// An origin that goes on with interim answers while its request fails for a reason
// of the gate's own doesn't get in the way of the answer to that.
func TestInterimAnswersDuringAFailure(t *testing.T) {
	o := tcpOrigin(t, func(c *net.TCPConn) int64 {
		gone := make(chan bool)
		go func() { defer close(gone); io.Copy(io.Discard, c) }()
		hint := []byte("HTTP/1.1 103 Early Hints\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n")
		for range 3000 { // net/http gives up at 256 KiB
			if _, err := c.Write(hint); err != nil {
				break
			}
		}
		<-gone // the gate has what it needs to fail by then, and an end would be another failure
		return 0
	})
	l := startLab(t, service(o.Addr), nil, nil)
	for i := range 40 {
		c := l.dial()
		c.send(crlf("POST http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "") + "1\r\na\r\n")
		time.Sleep(time.Duration(i) * 200 * time.Microsecond)
		c.send("nonsense\r\n")
		answer := c.rest()
		i := strings.LastIndex(answer, "HTTP/1.1 ")
		if i < 0 || !strings.HasPrefix(answer[i:], "HTTP/1.1 400 ") {
			t.Errorf("the last answer is %s", fmt.Sprintf("%.200q", answer[max(i, 0):]))
		}
		c.Close()
	}
}
