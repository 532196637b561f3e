//go:build linux

package attack

// outside are attacks that the host judges, since only it sees them. Who holds
// the session gives their findings to Judge.
func outside() []Attack {
	return []Attack{
		{ID: "canaries", Row: "T10", Try: "any connection at a canary of the host's that no attack owns up to"},
		{ID: "session-canary", Row: "T10", Try: "the canary that each run's own gate holds"},
		{ID: "gate-log", Row: "T6", Try: "any host in the gate's own report but the allowed"},
		{ID: "gate-from-host", Row: "T17", Try: "the session's gate from another process of the user's"},
		{ID: "second-gate-report", Row: "T17", Try: "a client in the other gate's own report"},
		{ID: "secret-in-host-argv", Row: "T4", Try: "the passed secret in the arguments of a process of the host's"},
		{ID: "secret-in-inspect", Row: "T4", Try: "the passed secret in podman inspect"},
		{ID: "fence-proof", Row: "T14", Try: "a start whose fence is not proved"},
		{ID: "empty-allowlist", Row: "T14", Try: "a start with an empty allowlist"},
		{ID: "mount-home", Row: "T1", Try: "a run in the home directory, and in /"},
		{ID: "mount-ssh", Row: "T2", Try: "a run in ~/.ssh, and in a directory that holds it"},
		{ID: "mount-state", Row: "T2", Try: "a mount of aisb's own state, cache and runtime directory"},
		{ID: "mount-symlink", Row: "T20", Try: "a project that is a link to the home directory"},
		{ID: "host-socket", Row: "T19", Try: "a run in a directory with a listening socket of the host's"},
		{ID: "terminal", Row: "T21", Try: "escape sequences that drive the user's terminal"},
	}
}
