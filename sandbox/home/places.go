package home

// Kind is why a file in a home matters.
type Kind string

// The kinds. All but the last are files that programs run, or that tell programs
// what to run, when somebody works in that home again.
const (
	Shell      Kind = "shell"
	Git        Kind = "git"
	SSH        Kind = "ssh"
	Tool       Kind = "tool"
	Credential Kind = "credential"
)

// Place is where such files lie, below the home. The last part may have wildcards
// (path.Match), the others may not.
type Place struct {
	Pattern string
	Kind    Kind
}

// StartUp are the files that run, or say what runs, when a later sandbox works in
// the home.
var StartUp = []Place{
	{".bashrc", Shell}, {".bash_profile", Shell}, {".bash_login", Shell}, {".bash_logout", Shell},
	{".bash_aliases", Shell}, {".profile", Shell}, {".inputrc", Shell},
	{".zshrc", Shell}, {".zshenv", Shell}, {".zprofile", Shell}, {".zlogin", Shell}, {".zlogout", Shell},
	{".config/fish/config.fish", Shell}, {".config/fish/conf.d/*", Shell}, {".config/fish/functions/*", Shell},
	{".config/environment.d/*", Shell},
	{".local/bin/*", Shell}, {"bin/*", Shell}, // Debian's .profile puts both before all others

	{".gitconfig", Git}, {".config/git/*", Git}, {".config/git/hooks/*", Git},

	{".ssh/*", SSH},

	{".npmrc", Tool}, {".yarnrc", Tool}, {".yarnrc.yml", Tool}, {".bunfig.toml", Tool},
	{".cargo/config.toml", Tool}, {".cargo/config", Tool}, {".cargo/env", Tool}, {".cargo/bin/*", Tool},
	{".config/go/env", Tool}, {"go/bin/*", Tool},
	{".config/pip/pip.conf", Tool}, {".pip/pip.conf", Tool}, {".config/uv/uv.toml", Tool}, {".pythonrc.py", Tool},
	{".m2/settings.xml", Tool}, {".gradle/init.gradle", Tool}, {".gradle/init.d/*", Tool}, {".gradle/gradle.properties", Tool},
	{".vimrc", Tool}, {".vim/plugin/*", Tool}, {".config/nvim/init.lua", Tool}, {".config/nvim/init.vim", Tool},
	{".emacs", Tool}, {".emacs.d/init.el", Tool}, {".gdbinit", Tool}, {".tmux.conf", Tool}, {".screenrc", Tool},
	{".curlrc", Tool}, {".wgetrc", Tool}, {".gnupg/gpg.conf", Tool}, {".gnupg/gpg-agent.conf", Tool},
}

// Credentials are the files in which common tools keep what lets them in
// somewhere. Those of the harnesses are in the harnesses' own data.
var Credentials = []Place{
	{".netrc", Credential}, {".git-credentials", Credential}, {".config/git/credentials", Credential},
	{".npmrc", Credential}, {".yarnrc.yml", Credential}, {".pypirc", Credential},
	{".cargo/credentials.toml", Credential}, {".cargo/credentials", Credential},
	{".m2/settings.xml", Credential}, {".gradle/gradle.properties", Credential},
	{".ssh/id_*", Credential}, {".ssh/*.pem", Credential}, {".gnupg/private-keys-v1.d/*", Credential},
	{".config/gh/hosts.yml", Credential}, {".config/glab-cli/config.yml", Credential},
	{".docker/config.json", Credential}, {".config/containers/auth.json", Credential},
	{".aws/credentials", Credential}, {".aws/sso/cache/*", Credential}, {".azure/msal_token_cache.*", Credential},
	{".config/gcloud/credentials.db", Credential}, {".config/gcloud/application_default_credentials.json", Credential},
	{".kube/config", Credential}, {".vault-token", Credential},
}
