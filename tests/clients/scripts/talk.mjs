// The conversation of both websocket clients: ten messages, each answered
// before the next; then "bye", and the server ends, or we do.
export function talk(socket, serverEnds) {
  const sent = Buffer.alloc(70000, "message ");
  let n = 0;
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(sent);
  socket.onmessage = ({ data }) => {
    if (!Buffer.from(data).equals(sent)) throw new Error("another message came back");
    if (++n < 10) socket.send(sent);
    else if (serverEnds) socket.send(Buffer.from("bye"));
    else socket.close(1000);
  };
  socket.onclose = () => console.log(n, "messages");
  socket.onerror = (e) => {
    console.error(e.message || e.error?.message || "error without a message");
    if (e.error?.cause) console.error(String(e.error.cause));
    process.exitCode = 1;
  };
}
