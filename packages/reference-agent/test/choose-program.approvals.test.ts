import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentServer } from '@conversation-operator/agent-server/server';
import { loadSettings } from '@conversation-operator/agent-server/settings';
import { chooseProgram } from '../src/choose-program.ts';
import { fake, until } from '../../agent-server/test/acp/place.ts';

/** A server with a conversation, over HTTP. */
class Bridge {
  readonly folder = mkdtempSync(join(tmpdir(), 'acp-routes-'));
  readonly #server: AgentServer;
  #url = '';

  constructor(env: Readonly<Record<string, string>> = {}) {
    this.#server = new AgentServer({
      settings: loadSettings(['--port', '0'], {
        OH_SESSION_API_KEYS_0: 'key',
        PATH: process.env['PATH'],
        OH_CONVERSATIONS_PATH: join(this.folder, 'conversations'),
        ...env,
      }),
      programs: chooseProgram,
      log: () => undefined,
    });
  }

  async request(method: string, path: string, body?: object) {
    const response = await fetch(`${this.#url}/api/conversations${path}`, {
      method,
      headers: { 'x-session-api-key': 'key' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  async start(text: string, policy?: string): Promise<string> {
    const { port } = await this.#server.start();
    this.#url = `http://127.0.0.1:${port}`;
    const { body } = await this.request('POST', '', {
      workspace: { working_dir: join(this.folder, 'work') },
      agent_settings: {},
      initial_message: { content: [{ text }] },
      ...(policy === undefined ? {} : { confirmation_policy: { kind: policy } }),
    });
    return `/${String(body['id'])}`;
  }

  async becomes(conversation: string, status: string): Promise<void> {
    await until(
      async () => (await this.request('GET', conversation)).body['execution_status'] === status,
    );
  }

  async question(conversation: string): Promise<{ readonly id: string } | null> {
    const { status, body } = await this.request('GET', `${conversation}/approval`);
    expect(status).toBe(200);
    return body['approval'] as { readonly id: string } | null;
  }

  async answer(conversation: string, body: object): Promise<number> {
    const path = `${conversation}/events/respond_to_confirmation`;
    return (await this.request('POST', path, body)).status;
  }

  /** The events that a client gets from now on, as they arrive. */
  async listen(conversation: string) {
    const events: {
      readonly kind: string;
      readonly value?: unknown;
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
    }[] = [];
    const url = `${this.#url.replace('http', 'ws')}/sockets/events${conversation}`;
    const socket = new WebSocket(`${url}?session_api_key=key`);
    socket.addEventListener('message', ({ data }) => {
      events.push(JSON.parse(String(data)) as (typeof events)[number]);
    });
    await until(() => events.length > 0);
    return events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const acp = { ACP_COMMAND: JSON.stringify([process.execPath, fake]) };

describe('the routes of approvals', () => {
  it('show the question that waits, and take the first answer to its id', async () => {
    await using bridge = new Bridge(acp);
    const conversation = await bridge.start('tool touch x\nwait');
    await bridge.becomes(conversation, 'waiting_for_confirmation');
    const question = await bridge.question(conversation);
    expect(question).toEqual({
      id: expect.any(String) as string,
      tool_call_id: expect.stringMatching(/^call-/) as string,
      title: 'Run touch x',
      tool_kind: 'execute',
      input: { command: 'touch x' },
      secret_marker: '<secret-hidden>',
      call_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      complete: true,
      options: [
        { option_id: 'no', name: 'No', kind: 'reject_once' },
        { option_id: 'yes', name: 'Yes', kind: 'allow_once' },
      ],
    });
    const yes = { accept: true, approval_id: question?.id };
    const no = { ...yes, accept: false };
    expect(await bridge.answer(conversation, { ...yes, approval_id: 'other' })).toBe(409);
    expect(await bridge.answer(conversation, { ...yes, option_id: 'always' })).toBe(422);
    expect(await bridge.answer(conversation, { ...no, option_id: 'yes' })).toBe(422);
    expect((await bridge.question(conversation))?.id).toBe(question?.id);
    // Two answers at once: the first holds.
    const [first, second] = await Promise.all([
      bridge.answer(conversation, { ...yes, option_id: 'yes' }),
      bridge.answer(conversation, no),
    ]);
    expect([first, second].sort()).toEqual([200, 409]);
    const isAllowed = first === 200;
    const answers = join(bridge.folder, 'work/answers.txt');
    await until(() => existsSync(answers) && readFileSync(answers, 'utf8').endsWith('\n'));
    expect(readFileSync(answers, 'utf8')).toBe(`touch x: ${isAllowed ? 'yes' : 'no'}\n`);
    expect(await bridge.question(conversation)).toBeNull();
    expect(await bridge.answer(conversation, isAllowed ? yes : no)).toBe(200);
    expect(await bridge.answer(conversation, isAllowed ? no : yes)).toBe(409);
  });

  it('show no question of an agent without a process of its own', async () => {
    await using bridge = new Bridge();
    const conversation = await bridge.start('```sh\ntrue\n```', 'AlwaysConfirm');
    await bridge.becomes(conversation, 'waiting_for_confirmation');
    expect(await bridge.question(conversation)).toBeNull();
    expect(await bridge.answer(conversation, { accept: true, approval_id: 'x' })).toBe(409);
    expect(await bridge.answer(conversation, { accept: true })).toBe(200);
    await bridge.becomes(conversation, 'finished');
  });
});

describe('a client that is connected by WebSocket', () => {
  it('gets the text in pieces before the event that is stored', async () => {
    await using bridge = new Bridge(acp);
    const conversation = await bridge.start('ask x\nthink hm\nslow 5 Word\nsay Over.');
    await bridge.becomes(conversation, 'waiting_for_confirmation');
    const events = await bridge.listen(conversation);
    await bridge.answer(conversation, { accept: true });
    await bridge.becomes(conversation, 'finished');
    const isDelta = ({ kind }: { readonly kind: string }) => kind === 'StreamingDeltaEvent';
    await until(() => events.some(({ value }) => value === 'finished'));
    const deltas = events.filter(isDelta);
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe(`${'Word'.repeat(5)}Over.`);
    expect(deltas.map(({ reasoning_content: text }) => text ?? '').join('')).toBe('hm');
    expect(deltas.length).toBeGreaterThan(1);
    const stored = events.findIndex(({ kind }) => kind === 'MessageEvent');
    expect(events.findLastIndex(isDelta)).toBeLessThan(stored);
    const found = await bridge.request('GET', `${conversation}/events/search`);
    expect(JSON.stringify(found.body)).not.toContain('StreamingDeltaEvent');
  });
});
