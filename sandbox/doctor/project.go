package doctor

// judgeBinary: with cgo the first process couldn't give its rights up on all
// threads (syscall.AllThreadsSyscall).
func judgeBinary(f Facts) result {
	if f.Cgo {
		return fail("build it with CGO_ENABLED=0, as 'make build' does", "built with cgo, it can't run in a container")
	}
	return ok("built without cgo")
}

func judgeSettings(f Facts) result {
	if f.Settings.Err != "" {
		return fail(f.Settings.Hint, "%s", f.Settings.Err)
	}
	return ok("can be read")
}

func judgeImage(f Facts) result {
	i := f.Image
	build := "to have that behind you: aisb image build"
	switch {
	case i.Err != "":
		return unknown("", "%s", i.Err)
	case i.Tag == "":
		return note(build, "none for the harness %s: the next run builds it, in some minutes and over your network", i.Harness)
	case !i.Exists.Ran || i.Exists.Err != "" || i.Exists.TimedOut > 0:
		return unknown("", "%s was built; whether podman still has it was not found out", i.Tag)
	case i.Exists.Status == 1: // podman-image-exists(1)
		return note(build, "%s is gone: the next run builds it again", i.Tag)
	case i.Exists.Status != 0:
		return unknown("", "%s was built; podman image exists: %s", i.Tag, firstLine(i.Exists.Errors))
	}
	return ok("%s", i.Tag)
}

func judgeGit(f Facts) result {
	g := f.Git
	switch {
	case g.Err != "":
		return unknown("", "%s", g.Err)
	case g.Root == "":
		return ok("not in one")
	case g.Changed+g.New > 0:
		return note("git stash -u, or commit: what git doesn't have, an agent can lose for good",
			"%s changed, %s: uncommitted work is at the agent's mercy", count(g.Changed, "file"), count(g.New, "new file"))
	}
	return ok("all committed")
}

// judgeClosed is no finding: it says beforehand what people otherwise find out
// inside.
func judgeClosed(Facts) result {
	return note("--allow-userns opens user namespaces for them; or switch the inner sandbox off, since aisb is one (Chromium: --no-sandbox)",
		"no user namespaces inside: Chromium's sandbox, bubblewrap, nested podman and docker fail; so do io_uring, bpf, perf, keyctl and userfaultfd")
}
