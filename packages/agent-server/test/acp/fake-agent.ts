import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import {
  agent,
  ndJsonStream,
  type AgentContext,
  type PermissionOption,
  type RequestPermissionRequest,
} from '@agentclientprotocol/sdk';

/**
 * An agent for tests, which does what the lines of a prompt say, and notes prompts and tools in
 * files of its working folder. Its sessions are in its HOME.
 */
const sessions = join(process.env['HOME'] ?? '', 'sessions.txt');
const cwd = process.cwd();
const note = (file: string, line: string) => appendFileSync(join(cwd, file), `${line}\n`);
/** Whether something is done for the first time in this folder, by any process. */
function isFirst(what: string): boolean {
  const path = join(cwd, `first-${what}`);
  if (existsSync(path)) return false;
  writeFileSync(path, '');
  return true;
}
const remember = (sessionId: string, sessionUpdate: string, text: string) =>
  appendFileSync(
    history(sessionId),
    `${JSON.stringify({ sessionUpdate, content: { type: 'text', text } })}\n`,
  );
const history = (sessionId: string) => join(process.env['HOME'] ?? '', `${sessionId}.jsonl`);
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const cancel = { isRequested: false };
/** The session that was not loaded. */
const refused = { session: '' };
const isCancelled = (): boolean => cancel.isRequested;

const usualOptions: readonly PermissionOption[] = [
  { optionId: 'always', name: 'Always', kind: 'allow_always' },
  { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
];

interface Question {
  readonly toolCallId?: string;
  readonly text: string;
  readonly title?: string;
  readonly options?: readonly PermissionOption[];
  readonly signal?: AbortSignal;
}

/** Asks for permission, and returns the chosen option or the outcome. */
async function ask(
  client: AgentContext,
  sessionId: string,
  { toolCallId = 'asked', text, title = `Run ${text}`, options = usualOptions, signal }: Question,
): Promise<string> {
  const question: RequestPermissionRequest = {
    sessionId,
    toolCall: { toolCallId, title, kind: 'execute', rawInput: { command: text } },
    options: [...options],
  };
  const { outcome } = await client.request(
    'session/request_permission',
    question,
    signal === undefined ? {} : { cancellationSignal: signal },
  );
  return outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome;
}

async function runLine(line: string, sessionId: string, client: AgentContext): Promise<void> {
  const [word = '', ...rest] = line.trim().split(' ');
  const text = rest.join(' ');
  const update = (value: object) =>
    client.notify('session/update', { sessionId, update: value as never });
  const say = (part: string) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: part } });
  switch (word) {
    case 'say':
      remember(sessionId, 'agent_message_chunk', text);
      for (const part of text.split('')) await say(part);
      return;
    // Keeps the whole text in its session, and dies before it has sent all of it.
    case 'say-half':
      if (!isFirst('half')) return;
      remember(sessionId, 'agent_message_chunk', text);
      await say(text.slice(0, text.length / 2));
      await sleep(300);
      process.kill(process.pid, 'SIGKILL');
      return sleep(10_000);
    case 'slow':
      for (let index = 0; index < Number(rest[0]); index++) {
        await say(rest[1] ?? '');
        await sleep(150);
      }
      return;
    case 'think':
      remember(sessionId, 'agent_thought_chunk', text);
      return update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } });
    case 'tool': {
      const toolCallId = `call-${String(process.hrtime.bigint())}`;
      const rawInput = { command: text };
      await update({
        sessionUpdate: 'tool_call',
        toolCallId,
        title: `Run ${text}`,
        kind: 'execute',
        status: 'pending',
        rawInput,
      });
      const chosen = await ask(client, sessionId, { toolCallId, text });
      note('answers.txt', `${text}: ${chosen}`);
      const isAllowed = chosen === 'yes' || chosen === 'always';
      if (isAllowed) note('tools.txt', text);
      return update({
        sessionUpdate: 'tool_call_update',
        toolCallId,
        rawOutput: chosen,
        status: isAllowed ? 'completed' : 'failed',
      });
    }
    // Speaks and asks for a session that this connection does not have.
    case 'stray': {
      const other = `${sessionId}-of-another`;
      const content = { type: 'text' as const, text: 'of another session' };
      await client.notify('session/update', {
        sessionId: other,
        update: { sessionUpdate: 'agent_message_chunk', content },
      });
      note('answers.txt', `${text}: ${await ask(client, other, { text })}`);
      return;
    }
    // Asks for the same call each time.
    case 'ask':
      note('answers.txt', `${text}: ${await ask(client, sessionId, { text })}`);
      return;
    // Asks as agents do that have the command in the title alone.
    case 'ask-titled':
      note('answers.txt', `${text}: ${await ask(client, sessionId, { text: '', title: text })}`);
      return;
    case 'ask-both': {
      const asked = rest.map(async (each) => {
        note('answers.txt', `${each}: ${await ask(client, sessionId, { text: each })}`);
      });
      await Promise.all(asked);
      return;
    }
    case 'ask-many': {
      let cancelled = 0;
      for (let index = 0; index < Number(text); index++)
        void ask(client, sessionId, { toolCallId: `call-${index}`, text: 'x'.repeat(10_000) }).then(
          (chosen) => {
            if (chosen === 'cancelled') cancelled += 1;
          },
        );
      // Ends its turn when a hundred questions are left, without waiting for their answers.
      const isOver = () => cancelled >= Number(text) - 100;
      for (let waits = 0; waits < 1_000 && !isOver(); waits++) await sleep(20);
      note('answers.txt', `cancelled: ${cancelled}`);
      return;
    }
    case 'ask-big': {
      const options = Array.from({ length: 10_000 }, (_none, index) => ({
        optionId: `allow-${index}`,
        name: 'n'.repeat(500),
        kind: 'allow_once' as const,
      }));
      const no = { optionId: 'no', name: 'No', kind: 'reject_once' as const };
      const title = 't'.repeat(1_000_000);
      const big = { text, title, options: [...options, no] };
      note('answers.txt', `${text}: ${await ask(client, sessionId, big)}`);
      return;
    }
    case 'ask-always': {
      const options = usualOptions.filter(({ kind }) => kind === 'allow_always');
      note('answers.txt', `${text}: ${await ask(client, sessionId, { text, options })}`);
      return;
    }
    // Cancels its own question when the file of this name exists.
    case 'ask-until': {
      const abort = new AbortController();
      const timer = setInterval(() => {
        if (existsSync(join(cwd, text))) abort.abort();
      }, 20);
      const { signal } = abort;
      await ask(client, sessionId, { text, signal }).then(
        (chosen) => note('answers.txt', `${text}: ${chosen}`),
        () => note('answers.txt', `${text}: withdrawn`),
      );
      clearInterval(timer);
      return;
    }
    // End their turn when the file of this name exists, without waiting for the answer.
    case 'ask-and-end':
    case 'ask-and-refuse':
      void ask(client, sessionId, { text });
      while (!existsSync(join(cwd, text))) await sleep(20);
      if (word === 'ask-and-refuse') throw new Error('no such model');
      return;
    case 'ask-and-die':
      if (!isFirst('death')) return;
      note('dead', String(process.pid));
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300);
      note('answers.txt', `${text}: ${await ask(client, sessionId, { text })}`);
      return;
    case 'ask-when-cancelled':
      while (!isCancelled()) await sleep(20);
      note('answers.txt', `${text}: ${await ask(client, sessionId, { text })}`);
      return;
    case 'line':
      if (isFirst('line')) process.stdout.write('x'.repeat(Number(text)));
      return;
    case 'calls':
      for (let index = 0; index < Number(text); index++)
        await update({
          sessionUpdate: 'tool_call',
          toolCallId: `call-${index}`,
          title: 'x'.repeat(100_000),
          status: 'completed',
          rawInput: 'y'.repeat(100_000),
        });
      return;
    case 'forget':
      writeFileSync(sessions, '');
      rmSync(history(sessionId), { force: true });
      return;
    case 'environment':
      note('answers.txt', `${text}=${process.env[text] ?? ''}`);
      return;
    // Prints its environment in every way that the protocol has.
    case 'leak': {
      const all = Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ''}`);
      const whole = all.join('\n');
      for (let at = 0; at < whole.length; at += 3) await say(whole.slice(at, at + 3));
      await update({
        sessionUpdate: 'agent_thought_chunk',
        content: { type: 'text', text: whole },
      });
      const call = { toolCallId: 'leak', title: whole, kind: 'execute', status: 'in_progress' };
      const rawInput = { command: whole, deep: [{ json: JSON.stringify(process.env) }] };
      const content = [{ type: 'content', content: { type: 'text', text: whole } }];
      await update({ sessionUpdate: 'tool_call', ...call, rawInput, content });
      const done = { toolCallId: 'leak', status: 'completed', rawOutput: process.env };
      await update({ sessionUpdate: 'tool_call_update', ...done });
      const entries = all.map((line) => ({ content: line, status: 'pending', priority: 'low' }));
      await update({ sessionUpdate: 'plan', entries });
      await update({ sessionUpdate: 'unheard', [whole]: process.env });
      const options = all.map((line, index) => ({
        optionId: index === 0 ? 'yes' : line,
        name: line,
        kind: 'allow_once' as const,
      }));
      await ask(client, sessionId, { text: whole, title: whole, options });
      process.stderr.write(`${whole}\n`);
      throw new Error(whole);
    }
    // Runs a command that prints numbers until it is cancelled.
    case 'count': {
      const [toolCallId, count] = ['count', Number(text)];
      const call = { toolCallId, title: 'Count', kind: 'execute' as const };
      await update({ sessionUpdate: 'tool_call', ...call, status: 'in_progress' });
      let printed = '';
      for (let index = 1; index <= count; index++) {
        printed += `${index} ${process.env['TOKEN'] ?? ''}\n`;
        const content = [{ type: 'content', content: { type: 'text', text: printed } }];
        await update({ sessionUpdate: 'tool_call_update', toolCallId, content });
      }
      while (!existsSync(join(cwd, 'counted'))) await sleep(20);
      return update({ sessionUpdate: 'tool_call_update', toolCallId, status: 'completed' });
    }
    case 'open':
      return update({
        sessionUpdate: 'tool_call',
        toolCallId: text,
        title: text,
        status: 'in_progress',
      });
    case 'die':
      if (!isFirst(text)) return;
      process.stderr.write(`${text} has killed me\n`);
      await sleep(50);
      process.kill(process.pid, 'SIGKILL');
      return sleep(10_000);
    case 'garbage':
      process.stdout.write(`no JSON at all\n[1,2]\n${'x'.repeat(100_000)}\n`);
      return;
    case 'unknown':
      await update({ sessionUpdate: 'unheard', value: 'of' });
      await client.request('fs/read_text_file', { sessionId, path: '/etc/passwd' }).then(
        () => note('answers.txt', 'read a file'),
        (error: unknown) => note('answers.txt', `refused: ${String(error)}`),
      );
      return;
    case 'flood':
      for (let index = 0; index < Number(text); index++) await say('0123456789'.repeat(100));
      return;
    case 'wait':
      while (!isCancelled()) await sleep(20);
      return;
    case 'hang':
      return sleep(3_600_000);
    case 'refuse':
      throw new Error('no such model');
    default:
      // Does what a file says once an allowed call was lost.
      if (line.startsWith('The user has allowed') && existsSync(join(cwd, 'again.txt')))
        for (const each of readFileSync(join(cwd, 'again.txt'), 'utf8').split('\n'))
          await runLine(each, sessionId, client);
  }
}

if (process.argv.includes('broken')) {
  process.stderr.write('a fatal error of the agent\n');
  process.exit(3);
}

agent({ name: 'fake' })
  .onRequest('initialize', async () => {
    if (process.argv.includes('hang-at-start') && isFirst('start')) await sleep(3_600_000);
    if (process.argv.includes('end-at-start') && isFirst('start'))
      setImmediate(() => process.exit(4));
    return {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: process.argv.includes('images') },
        mcpCapabilities: { http: process.argv.includes('mcp-http'), sse: false },
        sessionCapabilities: process.argv.includes('no-resume') ? {} : { resume: {} },
      },
    };
  })
  .onRequest('session/new', async ({ params, client }) => {
    note('servers.txt', JSON.stringify(params.mcpServers));
    if (refused.session !== '')
      await client.notify('session/update', {
        sessionId: refused.session,
        update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'late' } },
      });
    const sessionId = `session-${String(process.hrtime.bigint())}`;
    appendFileSync(sessions, `${sessionId}\n`);
    return { sessionId };
  })
  .onRequest('session/resume', ({ params }) => {
    if (!readFileSync(sessions, 'utf8').includes(params.sessionId))
      throw new Error('no such session');
    note('resumed.txt', params.sessionId);
    note('servers.txt', JSON.stringify(params.mcpServers));
    return {};
  })
  .onRequest('session/set_mode', ({ params }) => {
    note('modes.txt', params.modeId);
    return {};
  })
  .onRequest('session/load', async ({ params, client }) => {
    const { sessionId } = params;
    // Repeats its session after the next answer, although it has refused to load it.
    if (process.argv.includes('late-load')) {
      refused.session = sessionId;
      throw new Error('no such session');
    }
    note('loading.txt', sessionId);
    if (process.argv.includes('die-at-load')) process.exit(5);
    for (const line of readFileSync(history(sessionId), 'utf8').trimEnd().split('\n'))
      await client.notify('session/update', { sessionId, update: JSON.parse(line) as never });
    note('loaded.txt', sessionId);
    note('servers.txt', JSON.stringify(params.mcpServers));
    return {};
  })
  .onNotification('session/cancel', () => {
    cancel.isRequested = true;
  })
  .onRequest('session/prompt', async ({ params, client }) => {
    cancel.isRequested = false;
    const text = params.prompt.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
    note('prompts.txt', JSON.stringify(text));
    for (const part of params.prompt)
      if (part.type === 'image') note('images.txt', `${part.mimeType} ${part.data}`);
    remember(params.sessionId, 'user_message_chunk', text);
    for (const line of text.split('\n')) {
      if (isCancelled()) break;
      await runLine(line, params.sessionId, client);
    }
    return {
      stopReason: isCancelled() ? 'cancelled' : 'end_turn',
      usage: { inputTokens: 10, outputTokens: 2, totalTokens: 12 },
    } as never;
  })
  .connect(
    ndJsonStream(
      Writable.toWeb(process.stdout) as WritableStream<Uint8Array>,
      Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>,
    ),
  );
