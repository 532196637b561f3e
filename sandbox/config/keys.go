package config

// Keys are all settings, in the order of the help of 'aisb run'. A flag gets its
// key by a line here; tests in cmd/aisb hold that each flag has one or is among
// FlagsOnly, and that docs/config.md lists them.
var Keys = []Key{
	{Name: "allow", Kind: List, Gate: true, Alias: "allowedDomains", Also: []string{"domains", "allowlist", "allow-domain", "allow-hosts"},
		Says: "lets the sandbox reach %s"},
	{Name: "allow-files", Flag: "allow-file", Kind: List, Who: User, Path: WholePath, Gate: true,
		Says: "lets the sandbox reach what %s lists"},
	{Name: "deny", Kind: List, Gate: true, Narrows: true, Alias: "deniedDomains", Also: []string{"block", "denylist", "deny-domain"},
		Says: "denies %s"},
	{Name: "presets", Flag: "preset", Kind: List, Gate: true, Also: []string{"preset"}, Says: "lets the sandbox reach what the preset %s allows"},
	{Name: "no-implied-presets", Kind: Switch, Gate: true, Says: "lets a key open nothing by itself"},
	{Name: "allow-all-names", Kind: Switch, Who: User, Gate: true, Says: "lets the rule * allow any public name"},
	{Name: "net", Also: []string{"network"}, Reserved: []string{"full"}, Says: "sets the network to %s"},
	{Name: "net-backend", Gate: true, Says: "reaches the gate by %s"},
	{Name: "no-gate", Kind: Choice, Who: User, Gate: true, Says: "opens addresses instead of names"},
	{Name: "resolver", Gate: true, Also: []string{"dns"}, Says: "asks the name server %s"},
	{Name: "env", Kind: List, Says: "passes your variable %s"},
	{Name: "env-files", Flag: "env-file", Kind: List, Path: WholePath, Says: "passes the variables in the file %s"},
	{Name: "workdir", Says: "starts in the subdirectory %s"},
	{Name: "mounts", Flag: "mount", Kind: List, Path: MountPath, Also: []string{"volumes"}, Says: "mounts %s"},
	{Name: "project-ro", Kind: Switch, Says: "mounts the project read-only"},
	{Name: "protect", Kind: List, Says: "makes %s read-only"},
	{Name: "no-protect", Kind: List, Says: "lets the agent change %s, which the host may execute"},
	{Name: "on-new-exec-config", Who: User, Says: "does %s with new files that the host may execute"},
	{Name: "no-git-dir", Kind: Switch, Says: "mounts no git directory outside of the project"},
	{Name: "home", Env: "AISB_HOME_VOLUME", Not: "ephemeral-home", Says: "uses the home volume %s, with the logins kept in it"},
	{Name: "ephemeral-home", Kind: Switch, Not: "home", Says: "keeps nothing of the home directory"},
	{Name: "git-identity", Kind: Switch, Says: "passes your git name and mail address"},
	{Name: "git-tokens", Flag: "git-token", Kind: List, Says: "passes the variable and logs git in with it, as HOST=NAME: %s"},
	{Name: "ports", Flag: "publish", Kind: List, Says: "leads this machine's port into the sandbox: %s"},
	{Name: "harness", Says: "runs the harness %s"},
	{Name: "base-image", Env: "AISB_BASE_IMAGE", Says: "builds the image on %s"},
	{Name: "packages", Flag: "package", Kind: List, Says: "adds the package %s to the image"},
	{Name: "commands", Flag: "command", Kind: List, Says: "runs %s as root when the image is built"},
	{Name: "image", Says: "runs the image %s"},
	{Name: "pids-limit", Kind: Number, Says: "limits processes to %s"},
	{Name: "memory", Kind: Number, Says: "limits memory to %s"},
	{Name: "cpus", Kind: Number, Says: "limits processors to %s"},
	{Name: "tmpfs-size", Kind: Number, Says: "limits /tmp to %s"},
	{Name: "min-free", Kind: Number, Says: "stops below %s of free disk"},
	{Name: "shm-size", Kind: Number, Says: "limits /dev/shm to %s"},
	{Name: "allow-userns", Kind: Switch, Who: User, Says: "leaves user namespaces open"},
	{Name: "allow-unsafe-dir", Kind: Switch, Who: User, Says: "runs in a directory that is more than a project"},
	{Name: "allow-sockets", Kind: Switch, Who: User, Says: "runs although the project has a listening socket"},
	{Name: "share", Kind: Switch, Who: User, Says: "shares files with running sandboxes of other rules"},
	{Name: "allow-unenforced", Kind: Switch, Who: User, Says: "starts even if the fence doesn't hold"},
	{Name: "insecure-keep-root", Kind: Switch, Who: User, Says: "doesn't become uid 1000 inside"},
}

// FlagsOnly are flags of 'aisb run' that no file may hold, each with the reason.
var FlagsOnly = map[string]string{
	"help":    "it asks",
	"tty-raw": "who opens the terminal to a sandbox should do so each time",

	"name":    "of one run",
	"timeout": "of one run",
}
