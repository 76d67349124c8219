// The language server as a process: `stringline lsp`, spoken to over its standard input and output.
// A message is JSON behind a header with the number of bytes.
"use strict";

const { spawn } = require("child_process");

class Server {
  // Starts `tool lsp`. `notified(method, params)` gets the server's notifications; `ended(reason)`
  // is called once if the server ends, or cannot start, before stop().
  constructor(tool, notified, ended) {
    this.notified = notified;
    this.ended = ended;
    this.asked = new Map(); // id -> {resolve, reject}
    this.nextId = 1;
    this.received = Buffer.alloc(0);
    this.process = spawn(tool, ["lsp"], { stdio: ["pipe", "pipe", "ignore"] });
    this.process.on("error", (error) => this.end(`${tool} does not start: ${error.message}`));
    this.process.on("exit", (code, signal) => this.end(`${tool} lsp ended with ${signal || code}`));
    // A server that does not start has no streams, and a dead server does not read: both cases are
    // reported above.
    this.process.stdin?.on("error", () => {});
    this.process.stdout?.on("data", (bytes) => this.receive(bytes));
  }

  // A promise of the answer's result; fails with the server's message.
  request(method, params) {
    if (!this.process) return Promise.reject(new Error("the language server does not run"));
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      this.send({ jsonrpc: "2.0", id, method, params });
    });
  }

  notify(method, params) {
    if (this.process) this.send({ jsonrpc: "2.0", method, params });
  }

  // Ends the server in good order. A promise of its end.
  async stop() {
    const child = this.process;
    if (!child) return;
    this.ended = () => {};
    const gone = new Promise((resolve) => child.once("close", resolve));
    await this.request("shutdown", null).catch(() => {});
    this.notify("exit", null);
    child.stdin?.end();
    await gone;
  }

  send(message) {
    const body = Buffer.from(JSON.stringify(message));
    this.process.stdin?.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin?.write(body);
  }

  receive(bytes) {
    this.received = Buffer.concat([this.received, bytes]);
    for (;;) {
      const end = this.received.indexOf("\r\n\r\n");
      if (end < 0) return;
      const header = /Content-Length: (\d+)/i.exec(this.received.toString("latin1", 0, end));
      const length = header ? Number(header[1]) : 0;
      if (this.received.length < end + 4 + length) return;
      const body = this.received.toString("utf8", end + 4, end + 4 + length);
      this.received = this.received.subarray(end + 4 + length);
      if (header) this.take(JSON.parse(body));
    }
  }

  take(message) {
    const asked = this.asked.get(message.id);
    this.asked.delete(message.id);
    if (asked && message.error) asked.reject(new Error(message.error.message));
    else if (asked) asked.resolve(message.result);
    else if (message.method) this.notified(message.method, message.params);
  }

  end(reason) {
    if (!this.process) return;
    this.process = null;
    for (const { reject } of this.asked.values()) reject(new Error(reason));
    this.asked.clear();
    this.ended(reason);
  }
}

exports.Server = Server;
