import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { agent, ndJsonStream, type AgentContext } from '@agentclientprotocol/sdk';

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
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const cancel = { isRequested: false };
const isCancelled = (): boolean => cancel.isRequested;

async function runLine(line: string, sessionId: string, client: AgentContext): Promise<void> {
  const [word = '', ...rest] = line.trim().split(' ');
  const text = rest.join(' ');
  const update = (value: object) =>
    client.notify('session/update', { sessionId, update: value as never });
  const say = (part: string) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: part } });
  switch (word) {
    case 'say':
      for (const part of text.split('')) await say(part);
      return;
    case 'think':
      return update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } });
    case 'tool': {
      const toolCallId = `call-${String(process.hrtime.bigint())}`;
      const rawInput = { command: text };
      await update({
        ...{ sessionUpdate: 'tool_call', toolCallId, title: `Run ${text}`, kind: 'execute' },
        ...{ status: 'pending', rawInput },
      });
      const { outcome } = await client.request('session/request_permission', {
        sessionId,
        toolCall: { toolCallId, title: `Run ${text}`, kind: 'execute', rawInput },
        options: [
          { optionId: 'always', name: 'Always', kind: 'allow_always' },
          { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
          { optionId: 'no', name: 'No', kind: 'reject_once' },
        ],
      });
      const chosen = outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome;
      note('answers.txt', `${text}: ${chosen}`);
      const isAllowed = chosen === 'yes' || chosen === 'always';
      if (isAllowed) note('tools.txt', text);
      return update({
        ...{ sessionUpdate: 'tool_call_update', toolCallId, rawOutput: chosen },
        status: isAllowed ? 'completed' : 'failed',
      });
    }
    case 'open':
      return update({
        ...{ sessionUpdate: 'tool_call', toolCallId: text, title: text, status: 'in_progress' },
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
  }
}

if (process.argv.includes('broken')) {
  process.stderr.write('a fatal error of the agent\n');
  process.exit(3);
}

agent({ name: 'fake' })
  .onRequest('initialize', () => ({
    protocolVersion: 1,
    agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {} } },
  }))
  .onRequest('session/new', () => {
    const sessionId = `session-${String(process.hrtime.bigint())}`;
    appendFileSync(sessions, `${sessionId}\n`);
    return { sessionId };
  })
  .onRequest('session/resume', ({ params }) => {
    if (!readFileSync(sessions, 'utf8').includes(params.sessionId))
      throw new Error('no such session');
    note('resumed.txt', params.sessionId);
    return {};
  })
  .onNotification('session/cancel', () => {
    cancel.isRequested = true;
  })
  .onRequest('session/prompt', async ({ params, client }) => {
    cancel.isRequested = false;
    const text = params.prompt.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
    note('prompts.txt', JSON.stringify(text));
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
