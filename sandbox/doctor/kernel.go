package doctor

import (
	"slices"
	"strings"
)

// The sysctls that close user namespaces to ordinary users.
const (
	sysMax      = "user.max_user_namespaces"
	sysMaxNet   = "user.max_net_namespaces"
	sysClone    = "kernel.unprivileged_userns_clone" // Debian's kernels
	sysAppArmor = "kernel.apparmor_restrict_unprivileged_userns"
)

// Sysctls are those that are looked at.
var Sysctls = []string{sysMax, sysMaxNet, sysClone, sysAppArmor}

// closedBy names the sysctl that forbids user namespaces, and what opens them.
func (f Facts) closedBy() (string, string) {
	for _, c := range []struct{ name, bad, to string }{
		{sysMax, "0", "sudo sysctl user.max_user_namespaces=15000"},
		{sysMaxNet, "0", "sudo sysctl user.max_net_namespaces=15000"},
		{sysClone, "0", "sudo sysctl kernel.unprivileged_userns_clone=1"},
	} {
		if f.Sysctl[c.name] == c.bad {
			return c.name + "=" + c.bad, c.to + " (and a file in /etc/sysctl.d to keep it)"
		}
	}
	return "", ""
}

// restricted reports AppArmor's restriction, under which programs without a
// profile of their own get namespaces without rights in them. podman has such a
// profile on the distributions that restrict, aisb has not.
func (f Facts) restricted() bool { return f.Sysctl[sysAppArmor] == "1" }

func judgeUserNS(f Facts) result {
	if f.Trial.InPodman {
		return ok("podman has one, and made a network in it")
	}
	if f.Trial.Done || f.Trial.Step != "" {
		return ok("made one, with a network of its own")
	}
	// podman info runs in podman's own user namespace.
	if f.UID != 0 && f.info() != nil {
		return ok("podman has one; aisb itself: %s", f.Trial.StartErr)
	}
	if by, to := f.closedBy(); by != "" && f.UID != 0 {
		return fail(to, "closed by %s", by)
	}
	if !f.Trial.Denied {
		return unknown("", "%s", f.Trial.StartErr)
	}
	if f.restricted() {
		return unknown("", "%s, by AppArmor's rule for programs without a profile", f.Trial.StartErr)
	}
	return fail("a chroot, an outer container or a security module forbids them: run aisb on the host itself", "%s", f.Trial.StartErr)
}

func judgeAppArmor(f Facts) result {
	if !f.restricted() {
		return ok("doesn't restrict user namespaces")
	}
	return note("if podman can't make one, give it a profile with 'userns,' in /etc/apparmor.d, or: sudo sysctl "+sysAppArmor+"=0",
		"only programs with a profile may use user namespaces (%s=1)", sysAppArmor)
}

func judgeNFTables(f Facts) result {
	t := f.Trial
	switch {
	case t.Done:
		return ok("nf_tables took a fence in a namespace of its own, and read back the same")
	case t.Step == "":
		return unknown("", "not tried: %s", t.StartErr)
	case t.Lacks:
		return fail("sudo modprobe nf_tables; a kernel built without it (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, NFT_CT, NFT_REJECT) can't fence a sandbox",
			"%s: %s", t.Step, t.Err)
	case t.Denied && f.restricted():
		return unknown("", "AppArmor lets neither aisb nor podman's children try it: %s", t.Err)
	}
	return fail("", "%s: %s", t.Step, t.Err)
}

func judgeSeccomp(f Facts) result {
	have := strings.Fields(f.Seccomp)
	if len(have) == 0 {
		return fail("the kernel needs CONFIG_SECCOMP_FILTER", "this kernel has none")
	}
	for _, action := range []string{"allow", "errno"} {
		if !slices.Contains(have, action) {
			return fail("the kernel is older than 4.14, or odd", "the kernel can't %s", action)
		}
	}
	return ok("the kernel has it")
}

// judgeLandlock is about the gate, which locks itself up by it and by a filter of
// system calls, and does without where it has to.
func judgeLandlock(f Facts) result {
	if f.Landlock > 0 {
		return ok("version %d: the gate can open nothing but what it reads again", f.Landlock)
	}
	return note("boot with lsm=landlock,... before the others of /sys/kernel/security/lsm, or take a kernel of 5.13 or newer with CONFIG_SECURITY_LANDLOCK",
		"%s: a fault of the gate would have your files", f.LandlockErr)
}

func judgeSELinux(f Facts) result {
	const hint = "it should work, since a run asks for no label; if it doesn't: sudo ausearch -m avc -ts recent"
	switch strings.TrimSpace(f.SELinux) {
	case "":
		return ok("not in use")
	case "0":
		return note("", "permissive: it forbids nothing")
	case "1":
		return unknown(hint, "enforcing: aisb is not tested with it")
	}
	return unknown("", "/sys/fs/selinux/enforce says %q", f.SELinux)
}

func judgeCgroup(f Facts) result {
	const hint = "boot with systemd.unified_cgroup_hierarchy=1"
	switch {
	case f.Cgroup == "cgroup2":
		return ok("version 2")
	case f.Cgroup == "":
		return unknown("", "nothing can be seen at /sys/fs/cgroup")
	case f.CgroupMixed:
		return fail(hint, "hybrid layout: crun refuses it")
	}
	return unknown(hint, "version 1: aisb is not tested with it, and no limit holds")
}

func judgeLimits(f Facts) result {
	if len(f.Limits) == 0 {
		return ok("the default ones can be enforced")
	}
	return note("sudo systemctl edit user@.service, there: [Service] Delegate=cpu memory pids; then log in anew", "%s", strings.Join(f.Limits, "; "))
}
