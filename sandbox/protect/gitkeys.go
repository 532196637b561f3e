package protect

import (
	"path"
	"strings"
)

// executes are the settings by which git's configuration makes git run
// something, or read more configuration: SECTION.NAME, or SECTION.*.NAME for those
// of a subsection. value, if any, says which values do.
var executes = []struct {
	key   string
	value func(string) bool
	what  naming
}{
	{key: "core.hookspath", what: namesDir},
	{key: "core.fsmonitor", what: namesCommand},
	{key: "core.sshcommand", what: namesCommand},
	{key: "core.askpass", what: namesCommand},
	{key: "core.editor", what: namesCommand},
	{key: "core.pager", what: namesCommand},
	{key: "core.gitproxy", what: namesCommand},
	{key: "core.alternaterefscommand", what: namesCommand},
	{key: "core.worktree"},
	{key: "core.attributesfile"},
	{key: "include.path", what: namesInclude},
	{key: "includeif.*.path", what: namesInclude},
	{key: "extensions.worktreeconfig"},
	{key: "filter.*.clean", what: namesCommand},
	{key: "filter.*.smudge", what: namesCommand},
	{key: "filter.*.process", what: namesCommand},
	{key: "diff.external", what: namesCommand},
	{key: "diff.*.command", what: namesCommand},
	{key: "diff.*.textconv", what: namesCommand},
	{key: "difftool.*.cmd", what: namesCommand},
	{key: "difftool.*.path", what: namesCommand},
	{key: "merge.*.driver", what: namesCommand},
	{key: "mergetool.*.cmd", what: namesCommand},
	{key: "mergetool.*.path", what: namesCommand},
	{key: "alias.*", value: shellAlias, what: namesCommand},
	{key: "alias.*.command", value: shellAlias, what: namesCommand},
	{key: "credential.helper", what: namesCommand},
	{key: "credential.*.helper", what: namesCommand},
	{key: "gpg.program", what: namesCommand},
	{key: "gpg.*.program", what: namesCommand},
	{key: "gpg.*.defaultkeycommand", what: namesCommand},
	{key: "sequence.editor", what: namesCommand},
	{key: "interactive.difffilter", what: namesCommand},
	{key: "pager.*", what: namesCommand},
	{key: "trailer.*.command", what: namesCommand},
	{key: "trailer.*.cmd", what: namesCommand},
	{key: "uploadpack.packobjectshook", what: namesCommand},
	{key: "remote.*.uploadpack", what: namesCommand},
	{key: "remote.*.receivepack", what: namesCommand},
	{key: "remote.*.vcs"},
	{key: "remote.*.url", value: transport},
	{key: "remote.*.pushurl", value: transport},
	{key: "url.*.insteadof"},
	{key: "url.*.pushinsteadof"},
	{key: "protocol.allow"},
	{key: "protocol.*.allow"},
	{key: "submodule.*.update", value: shellAlias, what: namesCommand},
	{key: "submodule.*.url", value: transport},
	{key: "browser.*.cmd", what: namesCommand},
	{key: "browser.*.path", what: namesCommand},
	{key: "man.*.cmd", what: namesCommand},
	{key: "man.*.path", what: namesCommand},
	{key: "init.templatedir", what: namesDir},
	{key: "sendemail.smtpserver", what: namesCommand},
	{key: "sendemail.tocmd", what: namesCommand},
	{key: "sendemail.cccmd", what: namesCommand},
	{key: "instaweb.httpd", what: namesCommand},
	{key: "guitool.*.cmd", what: namesCommand},
	{key: "hook.*.command", what: namesCommand},
	{key: "tar.*.command", what: namesCommand},
	{key: "gc.recentobjectshook", what: namesCommand},
	{key: "imap.tunnel", what: namesCommand},
	{key: "imap.*.tunnel", what: namesCommand},
	{key: "svn.authorsprog", what: namesCommand},
	{key: "sendemail.sendmailcmd", what: namesCommand},
	{key: "sendemail.headercmd", what: namesCommand},
	{key: "sendemail.*.smtpserver", what: namesCommand}, // of an identity
	{key: "sendemail.*.sendmailcmd", what: namesCommand},
	{key: "sendemail.*.headercmd", what: namesCommand},
	{key: "sendemail.*.tocmd", what: namesCommand},
	{key: "sendemail.*.cccmd", what: namesCommand},
	{key: "lfs.*.path", what: namesCommand}, // of git-lfs: customtransfer.NAME, extension.NAME
	{key: "lfs.*.clean", what: namesCommand},
	{key: "lfs.*.smudge", what: namesCommand},
}

func shellAlias(value string) bool { return strings.HasPrefix(value, "!") }

// transport tells URLs that name a remote helper, such as ext::COMMAND
// (gitremote-helpers(7)).
func transport(value string) bool { return strings.Contains(value, "::") }

// naming is how the value of a setting names files.
type naming uint8

const (
	namesNothing naming = iota
	namesCommand        // words of a shell's command line, from the top of the work tree
	namesDir            // a directory, from the top of the work tree
	namesInclude        // a file, from the directory of the file with the setting
)

// judgeSetting finds how a setting makes git run something.
func judgeSetting(s Setting) (what naming, runs bool) {
	for _, e := range executes {
		section, rest, _ := strings.Cut(e.key, ".")
		sub, name, three := strings.Cut(rest, ".")
		if section != s.Section {
			continue
		}
		switch {
		case three: // SECTION.*.NAME; a subsection may be empty
			if sub != "*" || name != s.Name {
				continue
			}
		case rest == "*": // any name
			if s.Sub != "" {
				continue
			}
		case s.Sub != "" || rest != s.Name:
			continue
		}
		if e.value == nil || e.value(s.Value) {
			return e.what, true
		}
	}
	return namesNothing, false
}

// NewlyExecutes are the keys of settings that tell git to run something, or where to
// read more, and that were not there before, or other.
func NewlyExecutes(before, now []Setting) []string {
	had, told := map[Setting]bool{}, map[string]bool{} // an agent can have written very many
	for _, s := range before {
		had[s] = true
	}
	var keys []string
	for _, s := range now {
		if _, runs := judgeSetting(s); runs && !had[s] && !told[s.Key()] {
			told[s.Key()] = true
			keys = append(keys, s.Key())
		}
	}
	return keys
}

// Named is a path that git's configuration names. Without a leading slash it
// starts at the top of the work tree or, with Include, in the directory of the
// file that names it.
type Named struct {
	Path    string
	Dir     bool // a directory of programs; otherwise only a file counts
	Include bool // more configuration
}

// NamedPaths are the paths that settings name, or may: of a command each
// word is one, since a shell would split it, and there is no telling which is
// run. Who uses them looks which of them exist.
func NamedPaths(list []Setting, home string) []Named {
	var out []Named
	have := map[Named]bool{} // a command can have a hundred thousand words
	add := func(n Named) {
		if rest, ok := strings.CutPrefix(n.Path, "~/"); ok && home != "" {
			n.Path = home + "/" + rest
		}
		if n.Path = path.Clean(n.Path); n.Path != "." && n.Path != ".." && n.Path != "/" && !have[n] {
			have[n] = true
			out = append(out, n)
		}
	}
	for _, s := range list {
		what, _ := judgeSetting(s)
		switch what {
		case namesDir:
			add(Named{Path: s.Value, Dir: true})
		case namesInclude:
			add(Named{Path: s.Value, Include: true})
		case namesCommand:
			for _, word := range words(s.Value) {
				add(Named{Path: word})
				if rel := strings.TrimLeft(word, "/"); rel != word {
					add(Named{Path: rel}) // the rest of $(git rev-parse --show-toplevel)/PATH
				}
			}
		}
	}
	return out
}

// words are the words of a shell's command line, and of the command lines
// quoted in it, without variables: of $DIR/file the rest stays.
func words(command string) []string {
	for at := 0; ; {
		i := strings.IndexByte(command[at:], '$')
		if i < 0 {
			break
		}
		at += i + 1
		name := strings.TrimPrefix(command[at:], "{")
		rest := strings.TrimLeft(name, "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
		command = command[:at] + rest
	}
	return strings.FieldsFunc(command, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'`;|&()<>{}$=!,\\", r)
	})
}
