// Gets a URL with what Node has, by fetch and by HTTP/2: file of authorities, URL.
// fetch takes the authorities from the environment, NODE_EXTRA_CA_CERTS.

import { readFileSync } from "node:fs";
import http2 from "node:http2";

const [authorities, url] = process.argv.slice(2);

const answer = await fetch(url);
console.log("fetch", answer.status, await answer.text());

const { origin, pathname } = new URL(url);
const session = http2.connect(origin, { ca: readFileSync(authorities) });
const stream = session.request({ ":path": pathname });
stream.setEncoding("utf8");
stream.on("response", (head) => console.log("http2", head[":status"]));
stream.on("data", (text) => console.log(text));
stream.on("end", () => session.close());
