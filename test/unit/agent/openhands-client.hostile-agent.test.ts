import { gzipSync } from 'node:zlib';
import type { AgentConversation } from '../../../src/agent/agent.ts';
import { AgentError } from '../../../src/agent/errors.ts';
import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import { HostileAgent } from '../../support/gateway/hostile-agent.ts';
import { conversationId, dashedId } from './fake-agent.ts';
import { cpuMsOf } from '../../support/cpu-time.ts';

/** Deadlines of calls, so short that an agent which hangs in each of them is not waited for. */
const limits = {
  timeoutMs: 250,
  slowTimeoutMs: 250,
  connectTimeoutMs: 250,
  createTimeoutMs: 250,
  commandSlackMs: 50,
};
/**
 * Maximum duration of any call while all of them are made at once: a call without a deadline lasts
 * for ever, and a busy machine takes seconds.
 */
const patienceMs = 25_000;
const maxMemory = 100 * 1024 * 1024;

let agent: HostileAgent;
let client: OpenHandsClient;
/** A client for calls whose answers count, and not whether they are in time. */
let patient: OpenHandsClient;
beforeAll(async () => {
  agent = await HostileAgent.start();
  client = new OpenHandsClient(limits);
  patient = new OpenHandsClient();
});
afterEach(() => {
  for (const socket of agent.connections) socket.destroy();
});
afterAll(async () => {
  await Promise.all([client.close(), patient.close()]);
  await agent.stop();
});

const endpoint = () => ({ baseUrl: `http://127.0.0.1:${agent.port}`, sessionKey: 'session-key' });
const message = { content: [{ type: 'text', text: 'do it' }] } as const;
const init = { bootstrapKey: 'boot', sessionKey: 'session-key', secretKey: 'secret', env: {} };
const reported: AgentConversation = {
  id: conversationId,
  executionStatus: 'finished',
  reportedStatus: 'finished',
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: 'm',
  metrics: undefined,
};
const llm = { model: 'openai/m', apiKey: 'sk-secret-0123456789' };

const calls: Readonly<Record<string, () => Promise<unknown>>> = {
  probe: () => client.probe(endpoint()),
  initialise: () => client.initialise(endpoint(), init),
  execute: () => client.execute(endpoint(), { command: 'true', timeoutSeconds: 0.1 }),
  writeFile: () => client.writeFile(endpoint(), '/workspace/file', 'text'),
  hookConfig: () => client.hookConfig(endpoint(), '/workspace'),
  createConversation: () =>
    client.createConversation(endpoint(), {
      id: conversationId,
      workingDir: '/w',
      message,
      llm,
      tools: ['terminal'],
    }),
  'createConversation without a model': () =>
    client.createConversation(endpoint(), { id: conversationId, workingDir: '/w', message }),
  conversation: () => client.conversation(endpoint(), conversationId),
  conversations: () => client.conversations(endpoint(), [conversationId]),
  run: () => client.run(endpoint(), conversationId),
  continueRun: () => client.continueRun(endpoint(), conversationId),
  interrupt: () => client.interrupt(endpoint(), conversationId),
  sendMessage: () => client.sendMessage(endpoint(), conversationId, message),
  userMessages: () => client.userMessages(endpoint(), conversationId, 1),
  userMessagesAfter: () => client.userMessagesAfter(endpoint(), conversationId, undefined),
  lastError: () => client.lastError(endpoint(), conversationId),
  lastResult: () => client.lastResult(endpoint(), reported),
  setSecrets: () =>
    client.setSecrets(endpoint(), conversationId, [
      { name: 'A', url: 'http://gateway/', headers: {} },
    ]),
  useLlm: () => client.useLlm(endpoint(), conversationId, llm),
  serverInfo: () => client.serverInfo(endpoint()),
  runningConversations: () => client.runningConversations(endpoint()),
  question: () => client.question(endpoint(), conversationId),
  answer: () => client.answer(endpoint(), conversationId, { questionId: 'q', accept: true }),
  hadApproval: () =>
    client.hadApproval(endpoint(), conversationId, { questionId: 'q', accept: true }),
  losableQuestions: () => client.losableQuestions(endpoint()),
  rejectPending: () => client.rejectPending(endpoint(), conversationId, 'no'),
};

it('every method of the client is among them', () => {
  const methods = Object.getOwnPropertyNames(OpenHandsClient.prototype).filter(
    (name) => name !== 'constructor' && name !== 'close',
  );
  expect(Object.keys(calls)).toEqual(expect.arrayContaining(methods));
});

const answer = (body: string | Buffer, ...headers: readonly string[]) => {
  const bytes = Buffer.from(body);
  const head = [
    'HTTP/1.1 200 OK',
    'Content-Type: application/json',
    `Content-Length: ${bytes.length}`,
    ...headers,
  ].join('\r\n');
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`), bytes]).toString('latin1');
};
const status = (line: string, body = '{"detail":"no"}') => answer(body).replace('200 OK', line);

/** A value that no part of the protocol has, and no schema fits: deep, wide, of every type. */
const nonsense = JSON.stringify({
  id: dashedId,
  items: 7,
  detail: { deep: [[[[[{}]]]]] },
  success: 'perhaps',
  state: null,
  status: 1e308,
});
const mebibyte = 1024 * 1024;

const says: Readonly<Record<string, () => void>> = {
  'nothing, and closes': () => agent.answerWith(''),
  'nothing, for ever': () => agent.answerWith('', false),
  'its head only, for ever': () =>
    agent.answerWith('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n', false),
  'what is no HTTP': () => agent.answerWith('SSH-2.0-OpenSSH_9.6\r\n'),
  HTML: () => agent.answerWith(answer('<html>hello</html>')),
  'half of its JSON, and closes': () =>
    agent.answerWith(answer('{"id":"1').replace('Content-Length: 8', 'Content-Length: 800')),
  'half of its JSON, as if it were all': () => agent.answerWith(answer('{"id":"1')),
  'JSON of something else': () => agent.answerWith(answer(nonsense)),
  null: () => agent.answerWith(answer('null')),
  'a number': () => agent.answerWith(answer('1e999')),
  'what JavaScript has and JSON has not': () => agent.answerWith(answer('{"id":NaN}')),
  'a prototype': () =>
    agent.answerWith(
      answer('{"__proto__":{"success":true},"constructor":{"prototype":{"success":true}}}'),
    ),
  'brackets without end': () => agent.answerWith(answer('['.repeat(mebibyte - 1))),
  'ten megabytes of JSON': () =>
    agent.answerWith(answer(`{"success":true,"x":"${'a'.repeat(10 * mebibyte)}"}`)),
  'ten megabytes in an error': () =>
    agent.answerWith(status('500 No', `{"exception":"${'a'.repeat(10 * mebibyte)}"}`)),
  'a bomb of gzip': () =>
    agent.answerWith(answer(gzipSync(Buffer.alloc(50 * mebibyte, 'a')), 'Content-Encoding: gzip')),
  'a body without end': () => agent.answerWithout('a', 'HTTP/1.1 200 OK\r\n\r\n'),
  'chunks without end': () =>
    agent.answerWithout('1\r\na\r\n', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'),
  'headers without end': () =>
    agent.answerWithout('X-A: aaaaaaaaaaaaaaaa\r\n', 'HTTP/1.1 200 OK\r\n'),
  'one header without end': () => agent.answerWithout('a', 'HTTP/1.1 200 OK\r\nX-A: '),
  '1xx without end': () => agent.answerWithout('HTTP/1.1 102 Processing\r\n\r\n'),
  'a byte now and then': () =>
    agent.answerSlowly(answer(`{"success":true${' '.repeat(1000)}}`), 20),
  'an internal error': () =>
    agent.answerWith(status('500 Internal Server Error', '{"detail":"Internal Server Error"}')),
  'that it is another server': () => agent.answerWith(status('418 Teapot')),
  'a status that there is not': () => agent.answerWith(status('999 Strange')),
  'no content': () => agent.answerWith('HTTP/1.1 204 No Content\r\n\r\n'),
  'go elsewhere': () =>
    agent.answerWith(
      status('307 Temporary Redirect').replace(
        '\r\n',
        `\r\nLocation: http://127.0.0.1:${agent.port}/elsewhere\r\n`,
      ),
    ),
  'go to the cloud': () =>
    agent.answerWith(
      status('302 Found').replace(
        '\r\n',
        '\r\nLocation: http://169.254.169.254/latest/meta-data/\r\n',
      ),
    ),
  'let us speak another protocol': () =>
    agent.answerWith(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
      false,
    ),
  'keep this cookie': () =>
    agent.answerWith(answer('{"success":true}', 'Set-Cookie: session=evil; Path=/')),
  'two answers for one question': () =>
    agent.answerWith(
      answer('{"x":1}') + answer('{"success":true,"status":"ready","state":"ready"}'),
      false,
    ),
  'that it knows no key': () => agent.answerWith(status('401 Unauthorized')),
  'that it waits for its keys, always': () =>
    agent.answerWith(
      status(
        '503 No',
        `{"detail":"x","exception":"503: server is in deferred-init state 'dormant'"}`,
      ),
    ),
};

interface Outcome {
  readonly tookMs: number;
  /** A reasoned error, or a clean value. */
  readonly came: unknown;
}

async function outcomeOf(call: () => Promise<unknown>): Promise<Outcome> {
  const beganMs = performance.now();
  try {
    const came = await call();
    return { tookMs: performance.now() - beganMs, came };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { tookMs: performance.now() - beganMs, came: error };
  }
}

it.each(Object.keys(says))(
  'an agent that says %s: each call ends in time, with a reason or a clean value',
  async (saying) => {
    says[saying]?.();
    agent.received = '';
    const before = process.memoryUsage().rss;
    const outcomes = await Promise.all(
      Object.entries(calls).map(async ([name, call]) => ({
        name,
        saying,
        ...(await outcomeOf(call)),
      })),
    );
    expect(process.memoryUsage().rss - before).toBeLessThan(maxMemory);
    expect(outcomes.filter(({ tookMs }) => tookMs > patienceMs)).toEqual([]);
    for (const { came } of outcomes) {
      if (!(came instanceof AgentError)) {
        expect(JSON.stringify(came ?? null).length).toBeLessThan(10_000);
        continue;
      }
      // The message of the agent is truncated, and contains nothing that a terminal obeys.
      expect(came.message.length).toBeLessThan(700);
      // eslint-disable-next-line no-control-regex -- these are what must not be there
      expect(came.message).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
      expect(came.message).not.toContain(llm.apiKey);
    }
    // No redirect has been followed, and no cookie comes back.
    expect(agent.received).not.toMatch(/elsewhere|cookie: session/i);
  },
);

it('a mebibyte in chunks of one byte each costs no more than its first chunks', async () => {
  const chunks = Buffer.from(`{"success":true,"x":"${'a'.repeat(1_000_000)}"}`);
  const body = Array.from(chunks, (byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join('');
  agent.answerWith(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`);
  const cpuMs = await cpuMsOf(async () => {
    const { came } = await outcomeOf(() => patient.run(endpoint(), conversationId));
    expect(came).toMatchObject({
      code: 'malformed',
      message: "The agent's answer came in too many pieces.",
    });
  });
  // All of it costs more, and a busy machine may double the cost of the first ones.
  expect(cpuMs).toBeLessThan(400);
});

it('an answer in many chunks of some size is read', async () => {
  const piece = ' '.repeat(300);
  const body = `12c\r\n${piece}\r\n`.repeat(3_000);
  agent.answerWith(
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}11\r\n{"success":true }\r\n0\r\n\r\n`,
  );
  const { came } = await outcomeOf(() => patient.run(endpoint(), conversationId));
  expect(came).toBeUndefined();
});

it('an answer that is nested too deeply is malformed, because nothing could write a part of it', async () => {
  const levels = 200_000;
  agent.answerWith(answer(`{"success":true,"x":${'['.repeat(levels)}${']'.repeat(levels)}}`));
  const { came } = await outcomeOf(() => patient.run(endpoint(), conversationId));
  expect(came).toMatchObject({ code: 'malformed' });
});

it('an answer without a request is not taken for the next one', async () => {
  // One client, because each has connections of its own, with time for the first answer.
  const waiting = new OpenHandsClient({ ...limits, timeoutMs: 5_000 });
  try {
    agent.answerWith(answer('{"x":1}') + answer('{"success":true}'), false);
    expect((await outcomeOf(() => waiting.run(endpoint(), conversationId))).came).toMatchObject({
      code: 'malformed',
    });
    agent.answerWith('', false);
    expect((await outcomeOf(() => waiting.run(endpoint(), conversationId))).came).toMatchObject({
      code: 'timeout',
    });
  } finally {
    await waiting.close();
  }
});

it("another conversation's answer is none", async () => {
  const other = {
    id: '22222222-2222-4222-8222-222222222222',
    execution_status: 'finished',
    last_user_message_id: 'm',
  };
  agent.answerWith(answer(JSON.stringify(other)));
  const about = { code: 'malformed', message: 'The agent answered about another conversation.' };
  expect(
    (await outcomeOf(() => patient.conversation(endpoint(), conversationId))).came,
  ).toMatchObject(about);
  const wanted = { id: conversationId, workingDir: '/w', message, llm };
  expect(
    (await outcomeOf(() => patient.createConversation(endpoint(), wanted))).came,
  ).toMatchObject(about);
  agent.answerWith(answer(JSON.stringify([other])));
  expect(
    (await outcomeOf(() => patient.conversations(endpoint(), [conversationId]))).came,
  ).toMatchObject(about);
});
