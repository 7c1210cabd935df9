import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A provider of models for chat completions, as cheap as it can be. A whole answer comes after
 * `seed` milliseconds; a stream has `max_tokens` events at 50 a second. Prints its port.
 */
const eventsPerSecond = 50;
const json = { 'content-type': 'application/json' };
const usage = '"usage":{"prompt_tokens":10,"completion_tokens":5}';
const whole = Buffer.from(
  `{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Yes."}}],${usage}}`,
);
const event = Buffer.from(
  `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}]}\n\n`,
);
const last = Buffer.from(`data: {"choices":[],${usage}}\n\ndata: [DONE]\n\n`);

const streams = new Map<ServerResponse, number>();
setInterval(() => {
  for (const [response, left] of streams) {
    if (left > 0 && !response.destroyed) {
      response.write(event);
      streams.set(response, left - 1);
    } else {
      streams.delete(response);
      response.end(last);
    }
  }
}, 1000 / eventsPerSecond);

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.once('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as {
      readonly stream?: boolean;
      readonly max_tokens: number;
      readonly seed?: number;
    };
    if (body.stream === true) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(event);
      streams.set(response, body.max_tokens);
    } else if (body.seed === undefined) response.writeHead(200, json).end(whole);
    else setTimeout(() => response.writeHead(200, json).end(whole), body.seed);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
