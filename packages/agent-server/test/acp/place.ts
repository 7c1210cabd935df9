import { appendFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { acpPrograms } from '../../src/acp/program.ts';
import { Commands } from '../../src/commands.ts';
import type { Conversation } from '../../src/conversation.ts';
import { Conversations } from '../../src/conversations.ts';
import type { AgentEvent, ExecutionStatus } from '../../src/events.ts';
import type { Meta } from '../../src/meta.ts';
import type { Programs } from '../../src/program.ts';
import { SecretBox } from '../../src/secrets.ts';

/** The programs of a server that is the bridge of an agent. */
export const onlyAcp: Programs = (env) => {
  const choose = acpPrograms(env);
  if (choose === undefined) throw new Error('the environment names no agent');
  return choose;
};

export const fake = fileURLToPath(new URL('fake-agent.ts', import.meta.url));
const id = '0'.repeat(32);

/** A server's conversations on a folder, which another one may open after a crash. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), 'acp-'));
  #commands = new Commands();
  #conversations: Conversations | undefined;
  readonly #env: Readonly<Record<string, string>>;
  #path = join(this.folder, 'conversations');

  /** Takes settings of the agent, as the environment has them. */
  constructor(env: Readonly<Record<string, string>> = {}) {
    this.#env = env;
  }

  async open(command: readonly string[] = [process.execPath, fake]): Promise<Conversations> {
    this.#commands = new Commands();
    return (this.#conversations = await Conversations.open({
      path: this.#path,
      env: {
        ACP_COMMAND: JSON.stringify(command),
        PATH: process.env['PATH'] ?? '',
        LLM_MODEL: 'openai/mock',
        LLM_BASE_URL: 'http://127.0.0.1:9',
        LLM_API_KEY: 'key-of-the-model',
        ...this.#env,
      },
      secretBox: new SecretBox('key'),
      commands: this.#commands,
      programs: onlyAcp,
      maxConcurrentRuns: 10,
      touch: () => undefined,
      onOpen: () => undefined,
      onError: (message, error) => {
        throw new Error(message, { cause: error });
      },
    }));
  }

  async start(
    text: string,
    meta: Partial<Meta> = {},
    command?: readonly string[],
  ): Promise<Conversation> {
    await this.open(command);
    return this.another(text, { id, workingDir: join(this.folder, 'work'), ...meta });
  }

  /** Starts a conversation of the server that is open. */
  async another(
    text: string,
    meta: Partial<Meta> & Pick<Meta, 'id' | 'workingDir'>,
  ): Promise<Conversation> {
    const conversations = this.#conversations;
    if (conversations === undefined) throw new Error('no server is open');
    const { conversation } = await conversations.create(
      {
        createdAt: '2026-01-01T00:00:00.000000Z',
        maxIterations: 50,
        tags: {},
        loadProjectSkills: false,
        sealedSecrets: {},
        ...meta,
      },
      { role: 'user', content: [{ type: 'text', text }] },
    );
    return conversation;
  }

  /** The conversation that another server finds on the disk after a SIGKILL at this moment. */
  async crash(): Promise<Conversation> {
    const before = this.#conversations;
    const path = join(this.folder, 'after-the-crash');
    cpSync(this.#path, path, { recursive: true });
    this.#path = path;
    await before?.close();
    this.#commands.close();
    const found = (await this.open()).get(id);
    if (found === undefined) throw new Error('the conversation is gone');
    return found;
  }

  /** The ended lines of a file of a working folder: a file exists before its first line. */
  lines(file: string, folder = 'work'): readonly string[] {
    try {
      return readFileSync(join(this.folder, folder, file), 'utf8')
        .split('\n')
        .slice(0, -1);
    } catch {
      return [];
    }
  }

  /** Adds an update with this text to the stored sessions of the agent. */
  appendToSessions(rawOutput: string): void {
    const update = { sessionUpdate: 'tool_call_update', toolCallId: 'x', rawOutput };
    for (const name of readdirSync(this.#path, { recursive: true, encoding: 'utf8' }))
      if (/session-.*\.jsonl$/.test(name))
        appendFileSync(join(this.#path, name), `${JSON.stringify(update)}\n`);
  }

  async delete(conversation: Conversation): Promise<void> {
    await this.#conversations?.delete(conversation);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#conversations?.close();
    this.#commands.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export const allowed = { accept: true, reason: '' };
export const refused = { accept: false, reason: 'no' };

export const message = (text: string) => ({
  role: 'user' as const,
  content: [{ type: 'text' as const, text }],
});

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`never: ${String(condition)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function becomes(
  conversation: Conversation,
  ...statuses: readonly ExecutionStatus[]
): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!statuses.includes(conversation.status)) {
    if (performance.now() > deadline)
      throw new Error(`${conversation.status}: ${JSON.stringify(await eventsOf(conversation))}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export const eventsOf = ({ log }: Conversation): Promise<readonly AgentEvent[]> =>
  log.read(log.entries);

export const saidBy = async (conversation: Conversation): Promise<readonly string[]> =>
  (await eventsOf(conversation)).flatMap((event) =>
    event.kind === 'MessageEvent' && event.source === 'agent'
      ? event.llm_message.content.map((part) => (part.type === 'text' ? part.text : ''))
      : [],
  );

export const errorOf = async (conversation: Conversation) =>
  (await eventsOf(conversation)).findLast(({ kind }) => kind === 'ConversationErrorEvent');
