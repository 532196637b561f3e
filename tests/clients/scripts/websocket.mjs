// node websocket.mjs URL [SERVER-ENDS]: by the WebSocket that Node has built in.
import { talk } from "./talk.mjs";
talk(new WebSocket(process.argv[2]), process.argv[3]);
