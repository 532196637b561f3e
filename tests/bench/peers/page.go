package main

// stub
func (r *result) describe(b binaries, peers []*peer) {}
func (r *result) page() string { return r.table() }
func (r *result) plot() string { return "" }
