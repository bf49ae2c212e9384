// The TypeScript SDK's client (npm @agentclientprotocol/sdk) drives an agent: new, prompt with calls, permission, load after
// a restart, fork, cancel.
//
//     typescript_client.mjs COMMAND...

import assert from "node:assert";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";

const [program, ...args] = process.argv.slice(2);

async function started(work) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const seen = { updates: [], asked: [] };
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const app = acp
    .client({ name: "typescript-client" })
    .onRequest("session/request_permission", ({ params }) => {
      seen.asked.push(params);
      const once = params.options.find((it) => it.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: once.optionId } };
    })
    .onNotification("session/update", ({ params }) => {
      seen.updates.push(params.update);
    });
  try {
    return await app.connectWith(stream, async (agent) => {
      const hello = await agent.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
      assert.equal(hello.protocolVersion, 1);
      return await work(agent, seen);
    });
  } finally {
    child.kill();
  }
}

const kinds = (seen) => seen.updates.map((it) => it.sessionUpdate);
const text = (words) => [{ type: "text", text: words }];
const cwd = fs.mkdtempSync(path.join(os.tmpdir(), "acp-"));
const file = path.join(cwd, "a.txt");
fs.writeFileSync(file, "one\ntwo\n");

const sessionId = await started(async (agent, seen) => {
  const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
  const turn = await agent.request("session/prompt", { sessionId, prompt: text("change two to 2") });
  assert.equal(turn.stopReason, "end_turn");
  assert.equal(seen.asked[0]?.sessionId, sessionId, "no permission was asked");
  assert(kinds(seen).includes("tool_call") && kinds(seen).includes("agent_message_chunk"), kinds(seen));
  assert.equal(fs.readFileSync(file, "utf8"), "one\n2\n");
  const content = seen.updates.flatMap((it) => (it.sessionUpdate === "tool_call_update" ? (it.content ?? []) : []));
  const diff = content.find((it) => it.type === "diff");
  assert.deepEqual([diff.oldText, diff.newText], ["one\ntwo\n", "one\n2\n"]);
  return sessionId;
});

await started(async (agent, seen) => {
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  assert.equal(kinds(seen)[0], "user_message_chunk");
  assert(kinds(seen).includes("tool_call"), kinds(seen));
  const turn = await agent.request("session/prompt", { sessionId, prompt: text("are you there?") });
  assert.equal(turn.stopReason, "end_turn");
  const fork = (await agent.request("session/fork", { sessionId, cwd, mcpServers: [] })).sessionId;
  assert.notEqual(fork, sessionId);
  const waiting = agent.request("session/prompt", { sessionId: fork, prompt: text("slowly") });
  await new Promise((done) => setTimeout(done, 500));
  const began = performance.now();
  await agent.notify("session/cancel", { sessionId: fork });
  const cancelled = await waiting;
  const took = performance.now() - began;
  assert.equal(cancelled.stopReason, "cancelled");
  assert(took < 200, `${took} ms`);
  console.log(`typescript sdk: new, prompt, permission, diff, load, fork; cancel in ${took.toFixed(0)} ms`);
});
fs.rmSync(cwd, { recursive: true });
