// node get.mjs URL: the body to stdout, by node:http or node:https.
const url = new URL(process.argv[2]);
const { get } = await import(url.protocol === "https:" ? "node:https" : "node:http");
get(url, (answer) => {
  if (answer.statusCode !== 200) {
    console.error(answer.statusCode, answer.statusMessage);
    process.exitCode = 1;
  }
  answer.pipe(process.stdout);
});
