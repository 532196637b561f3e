package clients

import (
	"testing"
)

const (
	body   = "/bytes/1000000"
	secure = "https://site.test" + body
	plain  = "http://site.test" + body
)

// matrix is all clients. The environment is the sandbox's: no command here
// names the proxy, except for programs that read no variable at all.
var matrix = []client{
	{
		name: "curl", needs: []string{"curl"}, version: "curl --version",
		does:    "http, https, HTTP/2, upload of 5 MB over http and https",
		allowed: curl,
		refused: []refusal{
			{command: "curl -sS https://unlisted.test/", shown: "403"},
			{command: "curl -sS -i http://unlisted.test/", shown: "HTTP/1.1 403 Blocked by aisb: not-listed", ends: true},
			{command: "curl -sS -f http://unlisted.test/", shown: "403"},
			{command: "curl -sS https://site.test:8443/", host: "site.test", reason: "port-not-listed", shown: "403"},
			{command: "curl -sS ftp://unlisted.test/", reason: "bad-request", shown: "this is a proxy", ends: true},
		},
	},
	{
		name: "wget", needs: []string{"wget"}, version: "wget --version",
		does: "http, https",
		allowed: func(t *testing.T, b *bench) {
			same(t, "https", b.sh(t, "wget -q -O - "+secure), string(pattern(1_000_000)))
			same(t, "http", b.sh(t, "wget -q -O - "+plain), string(pattern(1_000_000)))
		},
		refused: []refusal{
			{command: "wget https://unlisted.test/", shown: "Blocked by aisb: not-listed"},
			{command: "wget http://unlisted.test/", shown: "403"},
		},
	},
	{
		name: "git", needs: []string{"git"}, version: "git --version",
		env:     []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"},
		does:    "push and clone of a pack of 100 MB over https",
		allowed: git,
		refused: []refusal{
			{command: "git clone https://unlisted.test/big.git refused", shown: "403"},
			{command: "git clone http://unlisted.test/big.git refused", shown: "403"},
			{command: "git -C work push https://unlisted.test/big.git main", shown: "403"},
		},
	},
	{
		name: "apt", needs: []string{"apt-get", "dpkg"}, version: "apt-get --version",
		env:     []string{"APT_CONFIG=apt.conf"},
		does:    "update and download over http and https",
		allowed: apt,
		refused: []refusal{
			{command: "echo 'deb [trusted=yes] https://unlisted.test ./' >sources.list; apt-get update", shown: "403", ends: true},
			{command: "echo 'deb [trusted=yes] http://unlisted.test ./' >sources.list; apt-get update", shown: "403"},
		},
	},
	{
		name: "npm", needs: []string{"npm"}, version: "npm --version",
		does: "install of a package over https and http",
		allowed: func(t *testing.T, b *bench) {
			for _, scheme := range []string{"https", "http"} {
				b.sh(t, "npm install --prefix "+scheme+" --registry "+scheme+"://npm.test/ aisb-probe")
				same(t, scheme, b.read(t, scheme+"/node_modules/aisb-probe/index.js"), string(probe["index.js"]))
				same(t, scheme, b.read(t, scheme+"/node_modules/aisb-probe/aisb_probe/__init__.py"), string(probe["aisb_probe/__init__.py"]))
			}
		},
		refused: []refusal{
			{command: "npm install --registry https://unlisted.test/ aisb-probe", shown: "403"},
			{command: "npm install --registry http://unlisted.test/ aisb-probe", shown: "403"},
		},
	},
	{
		name: "node-fetch", needs: []string{"node"}, version: "node --version", files: "scripts",
		does: "the built-in fetch, over http and https",
		allowed: func(t *testing.T, b *bench) {
			same(t, "https", b.sh(t, "node fetch.mjs "+secure), string(pattern(1_000_000)))
			same(t, "http", b.sh(t, "node fetch.mjs "+plain), string(pattern(1_000_000)))
		},
		refused: []refusal{
			{command: "node fetch.mjs https://unlisted.test/", shown: "403"},
			{command: "node fetch.mjs http://unlisted.test/", shown: "403"},
		},
	},
	{
		name: "node-https", needs: []string{"node"}, version: "node --version", files: "scripts",
		does: "node:http and node:https",
		allowed: func(t *testing.T, b *bench) {
			same(t, "https", b.sh(t, "node get.mjs "+secure), string(pattern(1_000_000)))
			same(t, "http", b.sh(t, "node get.mjs "+plain), string(pattern(1_000_000)))
		},
		refused: []refusal{
			{command: "node get.mjs https://unlisted.test/", shown: "403"},
			{command: "node get.mjs http://unlisted.test/", shown: "403"},
		},
	},
	{
		name: "node-websocket", needs: []string{"node"}, version: "node --version", files: "scripts",
		does:    "the built-in WebSocket, wss:// and ws:// (port 80), messages both ways, ended by either side",
		allowed: sockets("websocket.mjs"),
		refused: []refusal{
			{command: "node websocket.mjs wss://unlisted.test/"},
			{command: "node websocket.mjs ws://unlisted.test/"},
		},
	},
	{
		name: "ws", needs: []string{"node"}, files: "scripts", env: []string{"NODE_LIBRARIES=" + nodeDir()},
		version: `node -p 'require(process.env.NODE_LIBRARIES + "/node_modules/ws/package.json").version'`,
		does:    "the npm package ws with https-proxy-agent: the same",
		allowed: sockets("ws.mjs"),
		refused: []refusal{
			{command: "node ws.mjs wss://unlisted.test/", shown: "403"},
			{command: "node ws.mjs ws://unlisted.test/", shown: "403"},
		},
	},
	{
		name: "python-urllib", needs: []string{"python3"}, version: "python3 --version", files: "scripts",
		does: "http, https",
		allowed: func(t *testing.T, b *bench) {
			same(t, "https", b.sh(t, "python3 get.py "+secure), string(pattern(1_000_000)))
			same(t, "http", b.sh(t, "python3 get.py "+plain), string(pattern(1_000_000)))
		},
		refused: []refusal{
			{command: "python3 get.py https://unlisted.test/", shown: "403 Blocked by aisb: not-listed"},
			{command: "python3 get.py http://unlisted.test/", shown: "403: Blocked by aisb: not-listed"},
		},
	},
	{
		name: "pip", needs: []string{"pip3"}, version: "pip3 --version",
		does: "install of a wheel over https",
		allowed: func(t *testing.T, b *bench) {
			b.sh(t, "pip3 install --target lib --index-url https://pip.test/simple/ aisb_probe")
			same(t, "https", b.read(t, "lib/aisb_probe/__init__.py"), string(probe["aisb_probe/__init__.py"]))
		},
		refused: []refusal{
			{command: "pip3 install --target lib --index-url https://unlisted.test/simple/ aisb_probe", shown: "403 Blocked by aisb: not-listed"},
		},
	},
	{
		name: "go", needs: []string{"go"}, version: "go version",
		env:  []string{"GOTOOLCHAIN=local", "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOPROXY=https://modules.test"},
		does: "mod download from a GOPROXY over https",
		allowed: func(t *testing.T, b *bench) {
			b.sh(t, "go mod download -json example.com/probe@v1.0.0")
			same(t, "https", b.read(t, "go/pkg/mod/example.com/probe@v1.0.0/aisb_probe/__init__.py"), string(probe["aisb_probe/__init__.py"]))
		},
		refused: []refusal{
			{command: "GOPROXY=https://unlisted.test go mod download example.com/other@v1.0.0", shown: "Blocked by aisb: not-listed"},
			{command: "GOPROXY=http://unlisted.test go mod download example.com/other@v1.0.0", shown: "403 Blocked by aisb: not-listed"},
		},
	},
	{
		name: "openssl", needs: []string{"openssl"}, version: "openssl version",
		does:    "s_client -proxy: an https request by hand",
		allowed: openssl,
		refused: []refusal{
			{command: "openssl s_client -quiet -proxy ${https_proxy#*//} -connect unlisted.test:443 </dev/null", shown: "403 Blocked by aisb: not-listed"},
			{
				command: "openssl s_client -quiet -proxy ${https_proxy#*//} -connect site.test:443 -servername unlisted.test </dev/null",
				host:    "site.test", reason: "sni-mismatch", shown: "unrecognized name",
			},
		},
	},
	{
		name: "grpc-go", does: "a call of 1 MB and a stream both ways, by https_proxy",
		allowed: func(t *testing.T, b *bench) { grpcAllowed(t, b) },
		refused: []refusal{{command: grpcName + " unlisted.test:50051", shown: "403 Blocked by aisb: not-listed"}},
	},
	{
		name: "ssh", needs: []string{"ssh", "nc", "dropbear"}, version: "ssh -V 2>&1",
		does:    "ProxyCommand with nc, a `+tcp` rule: 1 MB there and back",
		allowed: ssh,
		refused: []refusal{
			{command: sshCommand + " root@unlisted.test true", shown: "403 Blocked by aisb: not-listed"},
			{command: sshCommand + " -p 443 root@site.test true", host: "site.test", reason: "not-tls"},
		},
	},
}
