// Services that an engine uses: an HTTP API for connections, a mail server that keeps what it takes, and the tests' double of
// Stripe.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";

const STRIPE = join(import.meta.dirname, "../../../target/debug/examples/stripe");

const listening = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

/** An HTTP API with a bearer token. A request to /slow is never answered. */
export async function startApi(token) {
  const requests = [];
  const waiting = [];
  const server = createHttpServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    for (const next of waiting.splice(0)) next();
    if (request.url.startsWith("/slow")) return;
    const isKnown = request.headers.authorization === `Bearer ${token}`;
    response.writeHead(isKnown ? 200 : 401, { "Content-Type": "application/json" });
    response.end(JSON.stringify(isKnown ? { orders: [48213, 48377] } : { error: "who are you?" }));
  });
  const port = await listening(server);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    /** Waits until a path was asked for. */
    asked: async (path) => {
      while (!requests.some((request) => request.includes(path))) await new Promise((resolve) => waiting.push(resolve));
    },
    close: () => server.closeAllConnections() ?? server.close(),
  };
}

/** An HTTP API, and the OAuth server that gives its tokens to the client `console`. */
export async function startProvider() {
  let url;
  // Of the last consent: the code is the same each time.
  let challenge;
  const server = createHttpServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, url);
    let body = "";
    for await (const chunk of request) body += chunk;
    const answer = (status, value) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(value));
    };
    if (pathname === "/authorize" && searchParams.get("client_id") === "console") {
      challenge = searchParams.get("code_challenge");
      const back = new URL(searchParams.get("redirect_uri"));
      back.search = new URLSearchParams({ code: "granted", state: searchParams.get("state") });
      response.writeHead(200, { "Content-Type": "text/html" });
      return response.end(`<a href="${back.href.replace(/&/g, "&amp;")}">Allow</a>`);
    }
    if (pathname === "/token") {
      const form = new URLSearchParams(body);
      const proof = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
      if (form.get("code") !== "granted" || proof !== challenge) return answer(400, { error: "invalid_grant" });
      return answer(200, { access_token: "given", token_type: "Bearer", expires_in: 3600 });
    }
    const isKnown = request.headers.authorization === "Bearer given";
    answer(isKnown ? 200 : 401, isKnown ? { issues: [17] } : { error: "who are you?" });
  });
  url = `http://127.0.0.1:${await listening(server)}`;
  return { url, close: () => server.closeAllConnections() ?? server.close() };
}

const decode = (text) =>
  text.replace(/=\r\n/g, "").replace(/=([0-9A-F]{2})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));

/** A mail server that takes every mail. */
export async function startMail() {
  const mails = [];
  const waiting = [];
  const server = createServer((socket) => {
    let rest = "";
    let data;
    const say = (line) => socket.write(`${line}\r\n`);
    say("220 mail.test");
    const take = (line) => {
      if (data !== undefined) {
        if (line !== ".") return void (data += `${line.replace(/^\.\./, ".")}\r\n`);
        mails.push(data);
        data = undefined;
        for (const next of waiting.splice(0)) next();
        return say("250 kept");
      }
      const command = line.slice(0, 4).toUpperCase();
      if (command === "DATA") {
        data = "";
        return say("354 end with a dot");
      }
      if (command === "QUIT") return socket.end("221 bye\r\n");
      say("250 ok");
    };
    socket.on("error", () => {});
    socket.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\r\n");
      rest = lines.pop();
      for (const line of lines) take(line);
    });
  });
  const port = await listening(server);
  return {
    url: `smtp://127.0.0.1:${port}`,
    /** Waits for a mail to an address, and returns the first address of a page in it. */
    link: async (to, from = 0) => {
      for (;;) {
        const mail = mails.slice(from).find((text) => text.toLowerCase().includes(`to: ${to}`) || text.includes(`<${to}>`));
        if (mail) return /https?:\/\/\S+/.exec(decode(mail))[0];
        await new Promise((resolve) => waiting.push(resolve));
      }
    },
    count: () => mails.length,
    close: () => server.close(),
  };
}

/** The double of Stripe, as a program that ends with its input. */
export async function startStripe() {
  if (!existsSync(STRIPE)) throw new Error(`${STRIPE} is not built: cargo build -p sortie-testkit --example stripe`);
  const child = spawn(STRIPE, { stdio: ["pipe", "pipe", "inherit"] });
  const line = await new Promise((resolve, reject) => {
    child.stdout.setEncoding("utf8").once("data", resolve);
    child.once("exit", (code) => reject(new Error(`the double of Stripe exited with ${code}`)));
  });
  const { url, secret_key } = JSON.parse(line);
  const post = (path, form) => fetch(url + path, { method: "POST", body: new URLSearchParams(form) });
  return {
    env: { SORTIE_STRIPE_API_URL: url, SORTIE_STRIPE_SECRET_KEY: secret_key, SORTIE_STRIPE_WEBHOOK_SECRETS: "whsec_hush" },
    url,
    /** Sends its events to an organization API. */
    sendEventsTo: (address) => post("/_double/webhooks", [["url", address], ["secrets[]", "whsec_hush"]]),
    close: () => child.stdin.end(),
  };
}
