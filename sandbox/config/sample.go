package config

// UserSample is a user's file to begin with. Each line that isn't one of prose is a
// setting when its # is taken away.
const UserSample = `# aisb's configuration: what each 'aisb run' of yours begins with. The keys are its
# flags ('aisb run --help'); 'aisb config show' prints what comes of them.
# The project's .aisb.toml, AISB_ variables and flags come on top: lists add up, of
# all else the last counts, and deny always wins.

# Hosts that sandboxes may reach. A rule is HOST, *.HOST, HOST:PORT and more.
# allow = ["api.anthropic.com", "*.example.com"]
# deny = ["telemetry.example.com"]

# Variables that are passed: NAME with your value, or NAME=VALUE.
# env = ["ANTHROPIC_API_KEY", "EDITOR=vi"]

# harness = "pi"
# packages = ["shellcheck"]
# home = "work"
# mounts = ["~/reference:/mnt/reference:ro"]
# memory = "8g"
# cpus = 4
`

// ProjectSample is a project's file to begin with, in the same way.
const ProjectSample = `# What a sandbox on this project needs (aisb). It counts once each user has looked
# at it and approved its content: aisb config trust

# Hosts that it may reach. A rule is HOST, *.HOST, HOST:PORT and more.
# allow = ["*.example.com"]

# Hosts that it must not reach. This counts without an approval.
# deny = ["production.example.com"]

# env = ["LOG_LEVEL=debug"]
# packages = ["postgresql-client"]
# memory = "8g"
`
