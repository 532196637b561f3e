// node ws.mjs URL [SERVER-ENDS]: by the package ws, which reads no variable of
// the environment and is given an agent, as programs do that use it.
import { createRequire } from "node:module";
import { talk } from "./talk.mjs";
const load = createRequire(process.env.NODE_LIBRARIES + "/");
const { HttpsProxyAgent } = load("https-proxy-agent");
const WebSocket = load("ws");
talk(new WebSocket(process.argv[2], { agent: new HttpsProxyAgent(process.env.https_proxy) }), process.argv[3]);
