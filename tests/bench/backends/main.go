// Command backends measures the network backends of a sandbox side by side:
// bytes both ways and connections through the gate to a server on the host's
// loopback, and what a start costs. It prints a table for docs/networking.md.
//
// It runs as the ordinary user. The same program, in the project's directory, is
// the client inside.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// backends are measured in turns.
var backends = []string{"pasta", "inner"}

// sizes of one round.
type sizes struct {
	mib, tunnels, width int
}

// sample is what one round saw of one backend. The client fills in the first
// part.
type sample struct {
	Up, Down float64 // MiB/s, with SHA-256 at both ends
	UpBare   float64 // MiB/s, with ends that cost next to nothing
	DownBare float64
	Stall    float64 // ms, the longest without a byte
	Tunnels  float64 // 1/s

	Start float64 // ms, `aisb run -- true`
	CPU   float64 // s of all processors a GiB, mean of the four, clients and server included
}

func main() {
	var s sizes
	aisb := flag.String("aisb", "aisb", "the binary")
	image := flag.String("image", "", "image to run in")
	rounds := flag.Int("rounds", 5, "rounds")
	inside := flag.String("inside", "", "be the client inside, of the server at `PORT`")
	flag.IntVar(&s.mib, "mib", 200, "MiB each way a round")
	flag.IntVar(&s.tunnels, "tunnels", 2000, "connections a round")
	flag.IntVar(&s.width, "width", 16, "connections at once")
	flag.Parse()
	var err error
	if *inside != "" {
		err = client(*inside, s)
	} else {
		err = measure(*aisb, *image, *rounds, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "backends:", err)
		os.Exit(1)
	}
}

// measure runs all rounds, and one before them that warms up.
func measure(aisb, image string, rounds int, s sizes) error {
	dir, err := os.MkdirTemp(os.Getenv("HOME"), "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "client"), self, 0o755); err != nil {
		return err
	}
	port, err := serve()
	if err != nil {
		return err
	}
	samples := map[string][]sample{}
	for round := range rounds + 1 {
		for i := range backends {
			backend := backends[(i+round)%len(backends)]
			r := runner{aisb: aisb, image: image, dir: dir, backend: backend, port: port}
			one, err := r.round(s)
			if err != nil {
				return fmt.Errorf("%s: %w", backend, err)
			}
			if round > 0 {
				samples[backend] = append(samples[backend], one)
			}
		}
		fmt.Fprintf(os.Stderr, "backends: round %d of %d\n", round, rounds)
	}
	fmt.Print(table(samples))
	return nil
}

// runner starts sandboxes with one backend.
type runner struct {
	aisb, image, dir, backend, port string
}

// run starts a command in a sandbox and returns its output.
func (r runner) run(command ...string) ([]byte, error) {
	args := append([]string{"run", "--image", r.image, "--ephemeral-home", "--net-backend", r.backend,
		"--allow", "host.containers.internal:" + r.port + "+tcp", "--"}, command...)
	cmd := exec.Command(r.aisb, args...)
	cmd.Dir = r.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &stderr)
	}
	return out, nil
}

func (r runner) round(s sizes) (sample, error) {
	begin := time.Now()
	if _, err := r.run("true"); err != nil {
		return sample{}, err
	}
	start := time.Since(begin)
	before, err := busy()
	if err != nil {
		return sample{}, err
	}
	out, err := r.run("/project/client", "-inside", r.port,
		"-mib", fmt.Sprint(s.mib), "-tunnels", fmt.Sprint(s.tunnels), "-width", fmt.Sprint(s.width))
	if err != nil {
		return sample{}, err
	}
	var one sample
	if err := json.Unmarshal(out, &one); err != nil {
		return sample{}, fmt.Errorf("%q: %w", out, err)
	}
	after, err := busy()
	one.Start = float64(start.Microseconds()) / 1000
	one.CPU = (after - before) / (4 * float64(s.mib) / 1024)
	return one, err
}

// userHZ is the unit of /proc/stat (proc_stat(5), sysconf(_SC_CLK_TCK)).
const userHZ = 100

// busy is how long the processors have worked, in seconds.
func busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	var user, nice, system, idle, iowait, irq, softirq float64
	if _, err := fmt.Sscanf(string(text), "cpu %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &iowait, &irq, &softirq); err != nil {
		return 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return (user + nice + system + irq + softirq) / userHZ, nil
}

// table is the result as Markdown: medians, least and most.
func table(samples map[string][]sample) string {
	var b bytes.Buffer
	fmt.Fprint(&b, "| median (least - most) |")
	for _, name := range backends {
		fmt.Fprintf(&b, " %s |", name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", string(bytes.Repeat([]byte("---|"), len(backends))))
	for _, row := range []struct {
		name string
		of   func(sample) float64
	}{
		{"upload, SHA-256, MiB/s", func(s sample) float64 { return s.Up }},
		{"download, SHA-256, MiB/s", func(s sample) float64 { return s.Down }},
		{"upload, cheap ends, MiB/s", func(s sample) float64 { return s.UpBare }},
		{"download, cheap ends, MiB/s", func(s sample) float64 { return s.DownBare }},
		{"longest pause, ms", func(s sample) float64 { return s.Stall }},
		{"connections, 1/s", func(s sample) float64 { return s.Tunnels }},
		{"CPU of the machine a GiB, s", func(s sample) float64 { return s.CPU }},
		{"`aisb run -- true`, ms", func(s sample) float64 { return s.Start }},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, name := range backends {
			var v []float64
			for _, s := range samples[name] {
				v = append(v, row.of(s))
			}
			slices.SortFunc(v, cmp.Compare)
			fmt.Fprintf(&b, " %.4g (%.4g - %.4g) |", v[len(v)/2], v[0], v[len(v)-1])
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// errShort is a stream that ended early.
var errShort = errors.New("the stream ended early")

// exactly reads n bytes into w.
func exactly(w io.Writer, r io.Reader, n int64) error {
	got, err := io.CopyN(w, r, n)
	if err == nil && got != n {
		err = errShort
	}
	return err
}
