// Package clients holds the gate against the clients that people use: each is
// the real program, with the environment that a sandbox gives it, in a network
// namespace whose only neighbour is the gate. Each reaches what is allowed, byte
// for byte, and shows what it shows when it is refused, which testdata keeps:
//
//	go test ./tests/clients -update    writes testdata and the table of docs/clients.md
package clients
