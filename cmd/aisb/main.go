// Command aisb runs an AI coding harness in a fenced rootless podman container.
package main

func main() {}
