package entry

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/seccomp"
	"github.com/aisb-dev/aisb/tests/need"
)

// A capability that is left in any set of any thread, or anything else that the
// drop must have done, is seen (point 2).
func TestWhateverIsLeftIsSeen(t *testing.T) {
	good := func() thread {
		return parseStatus("7", "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"+
			"CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\nGroups:\t \n"+
			"Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n")
	}
	judge := func(change func(map[string]string)) error {
		list := []thread{good(), good(), good()}
		change(list[2].fields) // the last of several: all are looked at
		list[2].filters = parseStatus("", "Seccomp_filters: "+list[2].fields["Seccomp_filters"]).filters
		return judgeThreads(list, 1000, 1000, 1)
	}
	if err := judge(func(map[string]string) {}); err != nil {
		t.Fatalf("threads without anything: %v", err)
	}
	count := 0
	refused := func(what string, change func(map[string]string)) {
		t.Helper()
		count++
		if err := judge(change); err == nil {
			t.Errorf("%s was not seen", what)
		}
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		for c := range 64 {
			refused(fmt.Sprintf("capability %d in %s", c, set), func(f map[string]string) { f[set] = fmt.Sprintf("%016x", uint64(1)<<c) })
		}
	}
	for _, key := range slices.Sorted(maps.Keys(good().fields)) {
		if key != "Seccomp_filters" { // kernels before 5.9 don't tell
			refused("no line "+key, func(f map[string]string) { delete(f, key) })
		}
	}
	for i := range 4 {
		for _, key := range []string{"Uid", "Gid"} {
			ids := []string{"1000", "1000", "1000", "1000"}
			ids[i] = "0"
			refused(fmt.Sprintf("%s %v", key, ids), func(f map[string]string) { f[key] = strings.Join(ids, " ") })
		}
	}
	for key, value := range map[string]string{"NoNewPrivs": "0", "Seccomp": "0", "Groups": "5", "Seccomp_filters": "1"} {
		refused(key+" "+value, func(f map[string]string) { f[key] = value })
	}
	t.Logf("%d left-overs", count)
}

const dropperName = "test-dropper"

// dropWithout drops as pid 1 does, but for one step, and tells what dropped says.
// Beforehand it makes sure that the step has something to do.
func dropWithout(step string) int {
	before, err := threads()
	if err == nil {
		err = haveRights()
	}
	if err != nil {
		fmt.Println("before:", err)
		return 1
	}
	left := false
	for _, s := range dropSteps(1000, 1000, seccomp.Options{}) {
		if s.name == step {
			left = true
			continue
		}
		if err := s.do(); err != nil {
			fmt.Printf("%s: %v\n", s.name, err)
			return 0
		}
	}
	if step == "become undumpable" {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // the change of uid has done it too: fs.suid_dumpable is 0
	}
	if !left && step != "nothing" {
		fmt.Println("there is no such step")
		return 1
	}
	fmt.Println(dropped(1000, 1000, before[0].filters))
	return 0
}

// haveRights puts something into all that the drop must empty: also into the
// sets that leaving uid 0 would empty by itself, if it weren't for the securebits.
func haveRights() error {
	const noSetuidFixup = 1 << 2 // SECBIT_NO_SETUID_FIXUP (capabilities(7))
	if err := syscall.Setgroups([]int{5}); err != nil {
		return err
	}
	if err := prctlAll(unix.PR_SET_SECUREBITS, noSetuidFixup); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for i := range data {
		data[i].Inheritable = data[i].Permitted
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return errno
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_ADMIN, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Each step of the drop left out is seen, in a real process with real threads, or
// is one that another step does as well.
func TestEveryStepOfTheDrop(t *testing.T) {
	need.Root(t) // a second uid
	need.UserNS(t)
	path, err := exe()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"nothing":                    "<nil>",
		"clear ambient set":          "<nil>", // emptying the inheritable set does it too (capabilities(7))
		"empty bounding set":         "still has CapBnd",
		"setgroups":                  `still has Groups "5"`,
		"setresgid":                  `still has Gid "0 0 0 0"`,
		"setresuid":                  `still has Uid "0 0 0 0"`,
		"clear capability sets":      "still has Cap",
		"set no_new_privs":           "install system call filter",
		"become undumpable":          "still dumpable",
		"install system call filter": `still has Seccomp "0"`,
	}
	if steps := dropSteps(1, 1, seccomp.Options{}); len(steps)+1 != len(want) {
		t.Errorf("%d steps, %d rows", len(steps), len(want))
	}
	for step, part := range want {
		cmd := exec.Command(path)
		cmd.Args = []string{dropperName, step}
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 2000}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{Uid: 0, Gid: 0},
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), part) {
			t.Errorf("without %q: %q, %v; want %q", step, out, err, part)
		}
	}
}
