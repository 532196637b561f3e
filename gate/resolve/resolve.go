// Package resolve looks names up for the gate: from the servers of a
// resolv.conf or from given ones, with a cache, and without any of the ways in
// which a name could come to mean something else (search lists, hosts files,
// multicast DNS).
package resolve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// Bounds of look-ups and of the cache.
const (
	lookupTimeout  = 10 * time.Second // of a whole look-up
	otherFamily    = 300 * time.Millisecond
	maxTTL         = 5 * time.Minute
	maxNegativeTTL = 30 * time.Second
	maxEntries     = 4096
	maxAddrs       = 64 // of one name; more is no service
)

// Errors of Lookup.
var (
	ErrNoName = errors.New("the name does not exist or has no address")
	ErrFailed = errors.New("no name server gave a usable answer")
)

// Config says whom to ask.
type Config struct {
	Servers    []Server       // if none, those of ResolvConf
	ResolvConf string         // "" is /etc/resolv.conf
	Roots      *x509.CertPool // for tls and https; nil is the host's
	Timeout    time.Duration  // of one attempt; 0 is what resolv.conf says, or 2 s
}

// Resolver looks up addresses. It is safe for concurrent use.
type Resolver struct {
	servers []Server
	timeout time.Duration
	other   time.Duration // that one family's addresses wait for the other's
	file    confFile
	roots   *x509.CertPool
	flights singleflight.Group
	good    atomic.Int32 // index of the server that answered last

	mu      sync.Mutex
	cache   map[string]entry
	asked   []Server // whose answers the cache holds
	clients map[Server]*http.Client
}

// entry is a result that is kept, good or bad.
type entry struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
}

// New makes a resolver.
func New(c Config) *Resolver {
	if c.ResolvConf == "" {
		c.ResolvConf = confPath
	}
	return &Resolver{
		servers: c.Servers, timeout: c.Timeout, other: otherFamily, file: confFile{path: c.ResolvConf}, roots: c.Roots,
		cache: make(map[string]entry), clients: make(map[Server]*http.Client),
	}
}

// Cached reports whether the name is known at present, so that a look-up would
// send nothing.
func (r *Resolver) Cached(name string) bool {
	r.conf()
	_, found := r.cached(name, time.Now())
	return found
}

// Len is the number of names in the cache.
func (r *Resolver) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.cache)
}

// Lookup returns the addresses of a name, IPv6 and IPv4. The name is taken as
// it is, fully qualified. Callers must not change the result. The error is
// ErrNoName, ErrFailed (perhaps wrapped), or the context's.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	conf := r.conf()
	if e, found := r.cached(name, time.Now()); found {
		return e.addrs, e.err
	}
	// The flight has a time of its own: that its first caller went away
	// doesn't concern the others.
	flight := r.flights.DoChan(name+" "+fmt.Sprint(conf.Servers), func() (any, error) {
		// One that ended since this caller looked may have left its answer.
		if e, found := r.cached(name, time.Now()); found {
			return e, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		e := entry{err: ErrFailed}
		contained(func() { e = r.lookup(ctx, conf, name) })
		return e, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-flight:
		e := result.Val.(entry)
		return e.addrs, e.err
	}
}

// contained lets a panic end this look-up alone: what servers send is taken
// apart here, and in goroutines that nobody else's recover covers.
func contained(do func()) {
	defer func() { _ = recover() }()
	do()
}

func (r *Resolver) cached(name string, now time.Time) (entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, found := r.cache[name]
	if found && now.After(e.expires) {
		delete(r.cache, name)
		return entry{}, false
	}
	return e, found
}

// keep remembers a result for its time, unless other servers than those that
// gave it are asked by now. When the cache is full, some entry goes: the order of
// a map is as good as any.
func (r *Resolver) keep(name string, conf Conf, e entry, ttl time.Duration) {
	if ttl <= 0 {
		return
	}
	e.expires = time.Now().Add(ttl)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(conf.Servers, r.asked) {
		return
	}
	if _, found := r.cache[name]; !found && len(r.cache) >= maxEntries {
		for victim := range r.cache {
			delete(r.cache, victim)
			break
		}
	}
	r.cache[name] = e
}

// lookup asks for both families at once and joins what comes.
func (r *Resolver) lookup(ctx context.Context, conf Conf, name string) entry {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan answer, 2)
	for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeA} {
		go func() {
			var a answer
			contained(func() { a = r.family(ctx, conf, name, qtype) })
			results <- a
		}()
	}
	first := <-results
	var second answer
	// A server that drops questions for one family shouldn't hold up the other.
	var late <-chan time.Time
	if len(first.addrs) > 0 {
		timer := time.NewTimer(r.other)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case second = <-results:
	case <-late:
	}
	e, ttl := join(first, second)
	r.keep(name, conf, e, ttl)
	return e
}

// join makes one result of both families'. It is pure.
func join(a, b answer) (entry, time.Duration) {
	addrs := append(append([]netip.Addr(nil), a.addrs...), b.addrs...)
	switch {
	case len(addrs) > maxAddrs:
		return entry{err: fmt.Errorf("%w: %d addresses", ErrFailed, len(addrs))}, 0
	case len(addrs) > 0 && a.kind == failed:
		return entry{addrs: addrs}, min(b.ttl, time.Second)
	case len(addrs) > 0 && b.kind == failed:
		return entry{addrs: addrs}, min(a.ttl, time.Second)
	case len(addrs) > 0:
		return entry{addrs: addrs}, min(a.ttl, b.ttl, maxTTL)
	case a.kind == failed || b.kind == failed:
		return entry{err: ErrFailed}, 0
	}
	return entry{err: ErrNoName}, min(a.ttl, b.ttl, maxNegativeTTL)
}

// family asks for one type of address and follows the chain of names.
func (r *Resolver) family(ctx context.Context, conf Conf, name string, qtype uint16) answer {
	links, ttl := 0, maxTTL
	for {
		a := r.askAll(ctx, conf, name, qtype)
		a.ttl = min(a.ttl, ttl)
		if a.next == "" {
			return a
		}
		if links += a.links; links > maxChain || isLocal(a.next) {
			return answer{}
		}
		name, ttl = a.next, a.ttl
	}
}

// askAll asks one server after the other, the one that answered last first, in
// as many rounds as configured.
func (r *Resolver) askAll(ctx context.Context, conf Conf, name string, qtype uint16) answer {
	begin := int(r.good.Load()) % len(conf.Servers)
	for range conf.Attempts {
		for i := range conf.Servers {
			at := (begin + i) % len(conf.Servers)
			if ctx.Err() != nil {
				return answer{}
			}
			tryCtx, cancel := context.WithTimeout(ctx, conf.Timeout)
			reply, err := r.ask(tryCtx, conf.Servers[at], name, qtype)
			cancel()
			if err != nil {
				continue
			}
			if a := readAnswer(reply, qtype); a.kind != failed {
				r.good.Store(int32(at))
				return a
			}
		}
	}
	return answer{}
}

// conf says whom to ask now. When that has changed, so has the network, in which
// the same name may lead elsewhere: what is known is forgotten.
func (r *Resolver) conf() Conf {
	var c Conf
	if len(r.servers) == 0 {
		c = r.file.get(time.Now())
	} else {
		c = defaultConf()
		c.Servers = r.servers
	}
	if r.timeout > 0 {
		c.Timeout = r.timeout
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(c.Servers, r.asked) {
		r.asked = c.Servers
		clear(r.cache)
	}
	return c
}
