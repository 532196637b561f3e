// node fetch.mjs URL: the body to stdout, by the fetch that Node has built in.
const answer = await fetch(process.argv[2]);
if (!answer.ok) {
  console.error(answer.status, answer.statusText);
  process.exitCode = 1;
}
process.stdout.write(Buffer.from(await answer.arrayBuffer()));
