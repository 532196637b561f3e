# Tries each target given as an argument, "KIND ADDRESS PORT", and prints what
# came of it and after how long. Runs inside a sandbox.
import json, socket, struct, subprocess, sys, time

LIMIT = 3


def stream(family, address, port):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(LIMIT)
        s.connect((address, port))
        # Say something that the other side logs.
        s.sendall(b"GET /direct HTTP/1.0\r\nHost: direct.test\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        s.recv(1)  # an empty answer is one too: the connection was there


def datagram(family, address, port):
    query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\6direct\4test\0" + struct.pack(">HH", 1, 1)
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.settimeout(LIMIT)
        s.connect((address, port))  # so that errors of the other side are seen
        s.send(query)
        s.recv(512)


def packet(*_):
    # A broadcast frame on each interface: netfilter never sees it.
    for index, name in socket.if_nameindex():
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
            s.bind((name, 0))
            s.send(b"\xff" * 12 + b"\x08\x00" + b"\0" * 50)


def raw(_, address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as s:
        s.sendto(struct.pack(">HHHH", 9, 9, 8, 0), (address, 0))


def icmp(_, address, port):
    # The kernel may let ordinary users send echo requests by a datagram socket.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.settimeout(LIMIT)
        s.sendto(struct.pack(">BBHHH", 8, 0, 0xF7FE, 0, 1), (address, 0))
        s.recvfrom(64)


def sctp(_, address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as s:
        s.settimeout(LIMIT)
        s.connect((address, port))


def resolve(_, address, port):
    socket.getaddrinfo(address, 80)


def curl(_, *args):
    p = subprocess.run(["curl", "-sS", "--noproxy", "*", "--max-time", str(LIMIT), *(str(a) for a in args[:-1])], capture_output=True, text=True)
    if p.returncode:
        raise OSError(p.stderr.strip())


def curlresolve(_, address, port):
    curl(_, "--resolve", address, "http://allowed.test/", port)


KINDS = {
    "tcp": (stream, socket.AF_INET), "tcp6": (stream, socket.AF_INET6),
    "udp": (datagram, socket.AF_INET), "udp6": (datagram, socket.AF_INET6),
    "packet": (packet, 0), "raw": (raw, 0), "icmp": (icmp, 0), "sctp": (sctp, 0),
    "resolve": (resolve, 0), "curl": (curl, 0), "curlresolve": (curlresolve, 0),
}

for target in sys.argv[1:]:
    kind, address, port = target.split()
    function, family = KINDS[kind]
    begin = time.monotonic()
    try:
        function(family, address, int(port))
        got = "reached"
    except OSError as e:
        got = str(e) or type(e).__name__
    ms = int((time.monotonic() - begin) * 1000)
    print(json.dumps({"name": target, "got": got, "ms": ms}), flush=True)
